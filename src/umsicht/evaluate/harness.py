"""Benchmark tasks by lm-evaluation-harness (extra `eval`): in process, on the live model, on local rows, offline."""

from __future__ import annotations

import logging
import math
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from umsicht.evaluate.harness_model import Asked, Codec, Prefix, as_harness_model
from umsicht.evaluate.harness_tasks import LocalTask, missing, offline, write
from umsicht.model import Transformer

BOOTSTRAPS = 1_000
"""Resamples behind a standard error that has no closed form."""
PREFIX = {
    "always": "one end-of-text token before every context",
    "empty-context": "one end-of-text token before empty contexts only",
}


@dataclass(frozen=True)
class HarnessResult:
    """`metrics` and `errors` (standard errors) by the harness's names; `scores`: the first metric row by row, in the rows' order."""

    task: str
    digest: str
    rows: int
    of: int
    metrics: dict[str, float]
    errors: dict[str, float]
    prefix: str
    harness: str
    scored_by: str
    scores: tuple[float, ...]

    @property
    def is_partial(self) -> bool:
        """Only some of the rows were asked: not comparable with published figures."""
        return self.rows < self.of

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "partial": self.is_partial}


def evaluate(
    model: Transformer,
    tokenizer: Codec,
    tasks: Mapping[str, Path],
    *,
    limit: int | None = None,
    window: int | None = None,
    prefix: Prefix = "always",
    device: torch.device | str = "cpu",
) -> list[HarnessResult]:
    """Ask `tasks` ({name: file of rows}, see `harness_tasks.write`). The model must be in evaluation mode.

    Raises UserError where the harness is not installed, a task is unknown, or a file is not of its form.
    """
    if find_spec("lm_eval") is None:
        raise missing()
    asked = Asked(model, tokenizer, window or model.config.seq_len, torch.device(device), prefix)
    return ask(as_harness_model(asked), tasks, limit=limit, prefix=PREFIX[prefix])


def ask(lm: Any, tasks: Mapping[str, Path], *, limit: int | None, prefix: str) -> list[HarnessResult]:
    """The same for any model in the harness's own form."""
    offline()
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    import datasets
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    datasets.disable_progress_bars()
    results = []
    with tempfile.TemporaryDirectory(prefix="umsicht-tasks-") as folder:
        # one at a time, in folders of their own: the harness indexes a folder as a whole
        for number, (name, file) in enumerate(tasks.items()):
            place = Path(folder) / str(number)
            place.mkdir()
            task = write(name, file, place)
            found = simple_evaluate(
                model=lm,
                tasks=[task.name],
                task_manager=TaskManager(include_path=str(place), include_defaults=False),
                limit=limit,
                bootstrap_iters=BOOTSTRAPS,
                log_samples=True,
            )
            results.append(_result(task, found, prefix))
    return results


def _result(task: LocalTask, found: Any, prefix: str) -> HarnessResult:
    metrics: dict[str, float] = {}
    errors: dict[str, float] = {}
    for key, value in found["results"][task.name].items():
        name, _, filtered = key.partition(",")
        if not filtered or not isinstance(value, int | float) or isinstance(value, bool):
            continue
        name = name if filtered == "none" else f"{name} ({filtered})"
        if "_stderr" in name:
            if math.isfinite(value):
                errors[name.replace("_stderr", "")] = float(value)
        else:
            metrics[name] = float(value)
    samples = sorted(found["samples"][task.name], key=lambda row: int(row["doc_id"]))
    first = next(
        (name for name in ("acc", "exact_match") if name in metrics), next(iter(metrics), "")
    ).partition(" ")[0]
    scores = [row[first] for row in samples if isinstance(row.get(first), int | float)]
    return HarnessResult(
        task=task.name,
        digest=task.digest,
        rows=len(samples),
        of=task.rows,
        metrics=metrics,
        errors=errors,
        prefix=prefix,
        harness=f"lm_eval {version('lm_eval')}",
        scored_by=first,
        scores=tuple(map(float, scores)),
    )
