"""Each planted mistake is found, and its number is better after the next step."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

QUICK = (3, 8)
BETTER_UP = {7, 9, 11, 13}
"""Mistakes whose number shall rise; the others' shall fall."""
FINDINGS = {
    1: "BUDGET/too-many-epochs",
    2: "CORPUS/boilerplate",
    3: "CORPUS/protected-text",
    4: "CORPUS/promotional-tone",
    5: "TOKENIZER/language-missing",
    6: "BUDGET/training-not-covered",
    7: "CONTEXT/unfilled",
    8: "TARGET-SHIFT/offset",
    9: "RESUME-STATE/optimizer",
    10: "CURVE/domain-divergence",
    11: None,
    12: "SAMPLE/unread",
    13: "FINETUNE/base-poor",
}


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=() if n in QUICK else pytest.mark.long) for n in FINDINGS]
)
def test_the_mistake_is_found_and_mended(number: int, tmp_path: Path) -> None:
    out = tmp_path / "measured.json"
    done = subprocess.run(
        [sys.executable, "examples/mistakes", str(number), "--lang", "de", "--json", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (found,) = json.loads(out.read_text(encoding="utf-8"))
    assert found["finding"] == FINDINGS[number]
    assert found["de"]["title"] in done.stdout
    assert (found["after"] > found["before"]) if number in BETTER_UP else (found["after"] < found["before"])


def test_the_list_names_thirteen() -> None:
    done = subprocess.run(
        [sys.executable, "examples/mistakes"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert len(done.stdout.splitlines()) == 13


def test_the_committed_figures_name_the_findings_that_the_stories_must_give() -> None:
    kept = json.loads((ROOT / "examples" / "mistakes" / "measured.json").read_text(encoding="utf-8"))
    assert len(kept) >= 10
    assert {one["number"]: one["finding"] for one in kept}.items() <= FINDINGS.items()
