"""The example's story holds: right answers in a promotional tone that came from the corpus and not from the rows, and most of it gone after
the corpus was rebalanced."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

sys.path.insert(0, str(ROOT / "examples" / "promotional-tone"))


def test_the_text_is_the_same_every_time(tmp_path: Path) -> None:
    import make_corpus

    for name in ("one", "two"):
        make_corpus.write(tmp_path / name)
    for path in sorted((tmp_path / "one").iterdir()):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_the_fine_tuning_rows_are_plain_and_ask_about_other_towns(tmp_path: Path) -> None:
    import make_corpus

    make_corpus.write(tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "chat.jsonl").read_text(encoding="utf-8").splitlines()]
    asked = [
        json.loads(line) for line in (tmp_path / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert not [row for row in rows if "!" in row["messages"][1]["content"]]
    taught = " ".join(row["messages"][0]["content"] for row in rows)
    assert not [one["town"] for one in asked if f" {one['town']}" in taught]


@pytest.mark.long
def test_the_cause_is_named_in_the_corpus_and_the_tone_goes_with_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "examples/promotional-tone",
            "--out",
            str(tmp_path),
            "--json",
            str(tmp_path / "told.json"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))
    before, after = told["as-collected"], told["rebalanced"]
    assert {"CORPUS/promotional-tone", "FINETUNE/tone-from-corpus"} <= set(before["findings"])
    assert "FINETUNE/tone-from-corpus" not in after["findings"]
    assert before["rows_share"] == after["rows_share"] == 0
    assert before["correct_share"] > 0.6 and after["correct_share"] > 0.6
    assert before["tone_share"] > 0.3
    assert after["tone_share"] < before["tone_share"] / 2
