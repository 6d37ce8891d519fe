"""Faults of evaluation (EV)."""

from __future__ import annotations

from typing import Any

from bench.faults.case import Plant, case
from bench.faults.plant import rewrite


def _score(old: str, new: str) -> Plant:
    def plant(p: Any) -> None:
        import umsicht.score.split as module

        rewrite(module, "score_split", old, new)

    return plant


def _mean_of_means(p: Any) -> None:
    import umsicht.score.split as module

    module.SplitScore.loss = property(
        lambda self: sum(s.loss for s in self.slices.values()) / len(self.slices)
    )


case(
    "EV1",
    "EVAL-VALIDITY",
    "evaluation",
    {"code": _mean_of_means},
    {"code": _score("float(values.sum())", "float(values.sum()) * (1.0005 if number == 0 else 1.0)")},
)
case(
    "EV2",
    "EVAL-VALIDITY",
    "evaluation",
    {"code": _score("len(values), int", "len(values) + 3, int")},
    {"code": _score("float(values.sum()), len(values)", "float(values[1:].sum()), len(values)")},
)
case(
    "EV3",
    "EVAL-VALIDITY",
    "evaluation|token storage",
    {"code": _score("int(split.document_bytes[number])", "len(values)")},
    {"code": _score("int(split.document_bytes[number])", "int(split.document_bytes[number]) + 1")},
)
