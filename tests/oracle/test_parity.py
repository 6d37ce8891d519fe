"""The figures of `make bench-parity` as tests. They run where the oracles are installed (`.venv-oracle`)."""

from __future__ import annotations

import operator
from pathlib import Path

import pytest
from bench.parity.limits import limit_of

for name in ("transformers", "trl", "peft", "gguf", "lm_eval", "choix", "statsmodels"):
    pytest.importorskip(name, reason=f"the oracle {name} is not installed")

CHECKS = {"<=": operator.le, "==": operator.eq, ">=": operator.ge}


@pytest.mark.long
@pytest.mark.parametrize(
    "group",
    ["exports", "imports", "gguf", "adapters", "supervised", "preference", "fresh", "harness", "ratings"],
)
def test_every_figure_meets_its_target(group: str, tmp_path: Path) -> None:
    from bench.parity.oracles import GROUPS

    figures = GROUPS[group](tmp_path)
    assert any(limit_of(name) for name in figures)
    for name, value in figures.items():
        if limit := limit_of(name):
            sign, bound = limit.split()
            assert CHECKS[sign](value, float(bound)), f"{name}: {value} {limit}"
