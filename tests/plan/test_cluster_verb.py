"""Assumptions that no cluster can meet are refused by the name of their option."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from umsicht.cli.plan import cluster
from umsicht.findings import UserError

IMPOSSIBLE = {
    "tokens": math.nan,
    "devices": [0],
    "vocab_size": 0,
    "mfu": 0.0,
    "mtbf_device_hours": 0.0,
    "checkpoint_s": -5.0,
    "restart_s": -1.0,
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_of_a_cluster_on_paper(name: str, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("name: x\npreset: tiny\n")
    given = {"tokens": 1e9, name: IMPOSSIBLE[name]}
    with pytest.raises(UserError) as refused:
        cluster(recipe, **given)
    option = "--" + name.replace("_", "-")
    assert refused.value.what.startswith(option) and refused.value.fix.startswith(option)


def test_possible_assumptions_give_a_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("name: x\npreset: tiny\n")
    assert cluster(recipe, tokens=1e9, devices=[8], restart_s=0.0) == 0
    assert "H100-SXM" in capsys.readouterr().out
