"""Each planted mistake is found, and its number is better after the next step."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

QUICK = ("4", "target-shift")
BETTER_UP = {"7", "9", "11", "13", "two-changes"}
"""Mistakes whose number shall rise; the others' shall fall."""
FINDINGS = {
    "1": "BUDGET/too-many-epochs",
    "2": "CORPUS/boilerplate",
    "3": "CORPUS/promotional-tone",
    "4": "CORPUS/protected-text",
    "5": "TOKENIZER/language-missing",
    "6": "BUDGET/training-not-covered",
    "7": "CONTEXT/unfilled",
    "8": "CURVE/domain-divergence",
    "9": "RESUME-STATE/optimizer",
    "10": "NUMERIC/unstable",
    "11": "FINETUNE/base-poor",
    "12": "SAMPLE/unread",
    "13": None,
    "target-shift": "TARGET-SHIFT/offset",
    "two-changes": None,
}
"""The thirteen by number, the two more by name."""


@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=() if key in QUICK else pytest.mark.long) for key in FINDINGS]
)
def test_the_mistake_is_found_and_mended(key: str, tmp_path: Path) -> None:
    out = tmp_path / "measured.json"
    done = subprocess.run(
        [sys.executable, "examples/mistakes", key, "--lang", "de", "--json", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (found,) = json.loads(out.read_text(encoding="utf-8"))
    assert found["finding"] == FINDINGS[key]
    assert found["de"]["title"] in done.stdout
    assert (found["after"] > found["before"]) if key in BETTER_UP else (found["after"] < found["before"])


def test_the_list_names_thirteen_and_two_more() -> None:
    done = subprocess.run(
        [sys.executable, "examples/mistakes"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [*map(str, range(1, 14)), "+", "+"]


def test_the_committed_figures_name_the_findings_that_the_stories_must_give() -> None:
    kept = json.loads((ROOT / "examples" / "mistakes" / "measured.json").read_text(encoding="utf-8"))
    assert len(kept) >= 10
    assert {str(one["number"] or one["slug"]): one["finding"] for one in kept}.items() <= FINDINGS.items()


@pytest.mark.parametrize("folder", ["mistakes", "de/fehler"])
def test_every_story_has_one_page_with_its_command_and_its_figures(folder: str) -> None:
    shown = {}
    for page in (ROOT / "docs" / folder).glob("*-*.md"):
        text = page.read_text(encoding="utf-8")
        (key,) = re.findall(r"^python examples/mistakes (\S+)", text, re.MULTILINE)
        assert f"measured.json: mistake-{key} -->" in text
        assert not key.isdigit() or (
            text.startswith(f"# {key}. ") and page.name.startswith(f"{int(key):02d}-")
        )
        shown[key] = page.name
    assert shown.keys() == FINDINGS.keys()
