"""What a log says of rate, gradient and validation beside its losses."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from umsicht.diagnose import diagnose

STEPS = 200
NOISE = np.random.default_rng(0).normal(0, 0.03, STEPS + 1)


def plain(step: int) -> dict[str, float]:
    return {"loss": 2.2 + 1.6 * math.exp(-step / 50) + NOISE[step], "grad_norm": 1.0, "learning_rate": 2e-5}


def said(change: Callable[[int], dict[str, Any]], folder: Path) -> list[str]:
    path = folder / "log.jsonl"
    rows = [{"step": step, **plain(step), **change(step)} for step in range(1, STEPS + 1)]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return [also.id for also in diagnose(path).also]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda n: {}, []),
        (lambda n: {"grad_norm": 0.0}, ["no-gradient"]),
        (lambda n: {"grad_norm": float(n < 120)}, ["no-gradient"]),
        (lambda n: {"grad_norm": float(n % 40 > 0)}, []),
        (lambda n: {"learning_rate": 2e-5 * max(0.0, 1 - n / 50)}, ["rate-zero"]),
        (lambda n: {"learning_rate": 2e-5 * (1 - n / STEPS)}, []),
        (lambda n: {"learning_rate": 1e-8 * n}, ["rate-rising"]),
        (lambda n: {"learning_rate": 1e-8 * min(n, 150)}, []),
        (lambda n: {"eval_loss": math.nan} if n % 40 == 0 else {}, ["val-never-finite"]),
        (
            lambda n: {"logps/chosen": -9.0 - n % 3, "logps/rejected": -9.0 - n % 3, "reward": 0.5},
            ["tune-same-answers"],
        ),
        (lambda n: {"logps/chosen": -9.0 - n % 3, "logps/rejected": -8.0, "reward": 0.5}, []),
    ],
)
def test_what_moves_nothing_is_said_beside_the_verdict(
    change: Callable[[int], dict[str, Any]], expected: list[str], tmp_path: Path
) -> None:
    assert said(change, tmp_path) == expected


def test_an_evaluation_without_a_number_is_not_a_run_that_diverged(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [{"step": n, **plain(n), "eval_loss": math.nan} for n in range(1, STEPS + 1)]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    assert diagnose(path).verdict != "diverged"
