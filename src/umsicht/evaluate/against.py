"""Two evaluations on the same rows: what differs beyond chance. Both must have been asked in the same way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from umsicht.evaluate.evaluation import DocumentScore, Evaluation
from umsicht.evaluate.tasks import Paired, paired
from umsicht.findings import UserError
from umsicht.words import t

DRAWS = 2_000


@dataclass(frozen=True)
class Difference:
    """Bits per byte of the first minus the second on the same documents, with a paired 95 % bootstrap interval over documents."""

    slice: str
    first: float
    second: float
    low: float
    high: float
    documents: int

    @property
    def is_clear(self) -> bool:
        """The interval lies on one side of zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Comparison:
    """`slices` with all text under `all`; `tasks` by name, for those that both were asked in the same rows."""

    slices: tuple[Difference, ...]
    tasks: dict[str, Paired]

    def to_dict(self) -> dict[str, Any]:
        return {
            "slices": [asdict(one) for one in self.slices],
            "tasks": {name: asdict(one) for name, one in self.tasks.items()},
        }


def compare(first: Evaluation, second: Evaluation) -> Comparison:
    """Raises UserError where the protocols differ, naming the first difference, or where the documents are not the same."""
    first.protocol.require_equal(second.protocol)
    theirs = {(d.id, d.slice): d for d in second.documents}
    if {(d.id, d.slice) for d in first.documents} != set(theirs):
        raise UserError(
            t("evaluate.protocols_differ", name="documents"), fix=t("evaluate.protocols_differ.fix")
        )
    pairs = [(mine, theirs[mine.id, mine.slice]) for mine in first.documents]
    names = [*first.slices, "all"]
    slices = tuple(
        _difference(name, [p for p in pairs if name in ("all", p[0].slice)]) for name in names if name
    )
    return Comparison(slices, _tasks(first, second))


def _difference(name: str, pairs: Sequence[tuple[DocumentScore, DocumentScore]]) -> Difference:
    nats = np.array([[a.nats, b.nats] for a, b in pairs])
    size = np.array([a.bytes for a, _ in pairs], dtype=float)
    pick = np.random.default_rng(0).integers(0, len(pairs), (DRAWS, len(pairs)))
    bits = nats[pick].sum(1) / math.log(2) / size[pick].sum(1)[:, None]
    low, high = np.quantile(bits[:, 0] - bits[:, 1], [0.025, 0.975])
    one, two = (nats.sum(0) / math.log(2) / size.sum()).tolist()
    return Difference(name, one, two, float(low), float(high), len(pairs))


def _tasks(first: Evaluation, second: Evaluation) -> dict[str, Paired]:
    """Tasks whose digests agree; `right` of our own files, `scores` of the harness's where they are 0 or 1."""
    found = {}
    for kind, scores in (("tasks", "right"), ("harness", "scores")):
        other = {row["task"]: row for row in second.more.get(kind, ())}
        for row in first.more.get(kind, ()):
            theirs = other.get(row["task"])
            if theirs is None or theirs["digest"] != row["digest"]:
                continue
            one, two = row[scores], theirs[scores]
            if len(one) == len(two) and len(one) > 0 and {float(v) for v in (*one, *two)} <= {0.0, 1.0}:
                found[row["task"] if kind == "tasks" else f"lm-eval {row['task']}"] = paired(one, two)
    return found
