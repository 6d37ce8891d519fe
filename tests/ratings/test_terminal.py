"""`umsicht rate do` in a real terminal: answers, a typing error, a step back, stopping and going on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from umsicht.ratings import Design, Output, Round, create, default, match
from umsicht.ratings.layout import Kind

pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")


def typed(one: Round, rater: str, lines: list[str]) -> str:
    """What the terminal showed while `lines` were typed."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "umsicht", "rate", "do", str(one.folder), rater],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "UMSICHT_LANG": "en", "TERM": "dumb", "COLUMNS": "100"},
    )
    os.close(slave)
    os.write(master, "".join(f"{line}\n" for line in lines).encode())
    shown = b""
    try:
        while piece := os.read(master, 4096):
            shown += piece
    except OSError:  # Linux ends a pseudo-terminal with an error
        pass
    os.close(master)
    assert process.wait(timeout=600) == 0, shown.decode()
    return shown.decode()


def made(folder: Path, kind: Kind) -> Round:
    outputs = [
        Output(
            system, f"p{i}", f"Prompt {i}", f"{system} wrote [red]this[/red] text number {i} for the prompt"
        )
        for i in range(3)
        for system in ("a", "b")
    ]
    material = match(outputs) if kind == "pairwise" else outputs
    design = Design(kind=kind, raters=("anna",), repeats=0.0, min_controls=1, seed=3)
    return create(folder / "round", material, design, default("en", ("fluency", "coherence")))


def test_pairs_are_rated_stopped_and_gone_on_with(tmp_path):
    one = made(tmp_path, "pairwise")
    shown = typed(one, "anna", ["1", "x", "2", "u", "3", "q"])
    ids = [item.id for item in one.items("anna")]
    assert [one.answers("anna")[i]["answer"] for i in ids[:2]] == ["left", "right"] and len(
        one.answers("anna")
    ) == 2
    assert "[red]this[/red]" in shown, "model text is shown as it is, never as markup"
    assert not one.is_complete
    typed(one, "anna", ["s", "b"])
    assert one.is_complete
    assert [one.answers("anna")[i]["answer"] for i in ids] == ["left", "right", "skip", "right"]
    assert all(row["seconds"] >= 0 for row in one.answers("anna").values())


def test_criteria_are_rated_one_by_one(tmp_path):
    one = made(tmp_path, "scores")
    typed(one, "anna", ["5", "9", "4", "u", "1", "s"] + ["3", "2"] * 7)
    answers = [one.answers("anna")[item.id]["answer"] for item in one.items("anna")]
    assert answers[0] == {"fluency": 1, "coherence": "skip"} and one.is_complete
    assert set(map(str, answers[1:])) == {str({"fluency": 3, "coherence": 2})}
