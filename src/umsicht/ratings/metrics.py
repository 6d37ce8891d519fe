"""The automatic metrics of rated checkpoints, from their runs' records, beside what people thought of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from umsicht.findings import Finding, UserError
from umsicht.ratings.correlation import FEWEST, Correlation, correlate
from umsicht.record.run import Run
from umsicht.words import t

RunOf = Callable[[str], Run]
"""A run by its name."""


def of_round(folder: Path, run_of: RunOf) -> tuple[list[Correlation], list[Finding]]:
    """Correlations over the systems of a scored round that are checkpoints (`run@step`); findings are for the caller to record.

    Raises UserError where the round was not scored, carries no verdict, or rates fewer than five checkpoints.
    """
    ratings = _ratings(folder)
    checkpoints = {
        system: system.rpartition("@") for system in ratings if system.rpartition("@")[2].isdigit()
    }
    if len(checkpoints) < FEWEST:
        raise UserError(
            t("ratings.metrics.few", n=len(checkpoints), needed=FEWEST),
            where=str(folder),
            fix=t("ratings.metrics.few.fix"),
        )
    table: dict[str, dict[str, float]] = defaultdict(dict)
    for system, (name, _, step) in checkpoints.items():
        for metric, value in of_checkpoint(run_of(name), int(step)).items():
            table[metric][system] = value
    return correlate(table, ratings)


def _ratings(folder: Path) -> dict[str, float]:
    """System → log strength (pairwise), or mean level over all criteria (scores)."""
    try:
        result: dict[str, Any] = orjson.loads((folder / "result.json").read_bytes())
    except (OSError, orjson.JSONDecodeError):
        raise UserError(
            t("ratings.metrics.unscored", folder=folder), fix=f"umsicht rate score {folder}"
        ) from None
    if result["decision"] == "refused":
        raise UserError(t("ratings.metrics.refused", folder=folder), fix=f"umsicht rate score {folder}")
    if result["strengths"]:
        return {row["system"]: float(row["log"]) for row in result["strengths"]}
    levels: dict[str, list[float]] = defaultdict(list)
    for row in result["means"]:
        levels[row["system"]].append(float(row["mean"]))
    return {system: sum(values) / len(values) for system, values in levels.items()}


def of_checkpoint(run: Run, step: int) -> dict[str, float]:
    """Every validation, sample and evaluation figure that the record holds of this step."""
    found: dict[str, float] = {}
    for row in run.metrics().rows:
        if row.get("step") == step:
            found |= _numbers(row, ("val/", "train_eval/", "samples/"))
    for path in sorted(run.evaluations.glob(f"step-{step:08d}-*.json")):
        plain = orjson.loads(path.read_bytes())
        found["evaluation/bpb"] = float(plain["all"]["bpb"])
        found |= {f"evaluation/{name}/bpb": float(s["bpb"]) for name, s in plain["slices"].items()}
        found |= _numbers(plain.get("samples", {}), ("samples/",))
        found |= {f"task/{row['task']}": float(row["accuracy"]) for row in plain.get("tasks", ())}
    return found


def _numbers(row: Mapping[str, Any], prefixes: tuple[str, ...]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in row.items()
        if name.startswith(prefixes)
        and not name.endswith(("_s", "/outputs"))
        and isinstance(value, int | float)
    }
