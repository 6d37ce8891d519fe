"""The measurement sheet holds what the record holds, and only that."""

from __future__ import annotations

from pathlib import Path

import pytest

from umsicht.record import Run, atomic_json
from umsicht.record.ids import file_digest
from umsicht.record.manifest import write_manifest
from umsicht.record.sheet import sheet
from umsicht.words import speaking


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run.create(
        tmp_path / "r",
        {
            "name": "small",
            "id": "a" * 64,
            "recipe": {"name": "small", "train": {"validation": {"slice_bytes": 60000}}},
            "inputs": {"corpus": "c" * 64, "tokens": "d" * 64},
            "tokenizer_digest": "e" * 64,
            "seed": 3,
            "planned_steps": 20,
        },
    )
    writer = made.metrics_writer(made.begin_segment())
    for step in range(1, 11):
        writer.write({"step": step, "time": 100.0 + step, "tokens": step * 10, "train/loss": 5.0 - step / 10})
    writer.write(
        {
            "step": 10,
            "time": 110.5,
            "tokens": 100,
            "val/a.en/loss": 4.5,
            "val/all/loss": 4.5,
            "val/all/bpb": 2.1,
        }
    )
    writer.close()
    second = made.metrics_writer(made.begin_segment())
    second.write({"step": 11, "time": 500.0, "tokens": 110, "train/loss": float("nan")})
    second.write({"step": 12, "time": 502.0, "tokens": 120, "train/loss": 3.5})
    second.close()
    checkpoint = made.checkpoints / "step-00000010"
    checkpoint.mkdir(parents=True)
    (checkpoint / "model.safetensors").write_bytes(b"weights")
    write_manifest(checkpoint, {"kind": "checkpoint", "step": 10})
    (made.checkpoints / "step-00000012").mkdir()  # never finished: no manifest
    made.add_finding({"id": "CURVE/plateau", "grade": "warn", "stage": "diagnose", "location": "step 9"})
    made.update_manifest(waivers=[{"id": "BUDGET/short", "because": "a rehearsal"}])
    made.add_samples([{"step": 10, "prompt": "The", "text": "river | runs\nhome"}])
    return made


def test_the_sheet_says_what_the_record_says(run: Run) -> None:
    plain = sheet(run).to_dict()
    assert plain["progress"]["steps"] == 12
    assert plain["progress"]["tokens"] == 120
    assert plain["progress"]["run_time_s"] == 11.5  # 9.5 + 2.0; the pause between the segments does not count
    assert plain["progress"]["restarts"] == 1
    assert plain["training"]["train/loss"] == 3.5
    assert plain["validation"]["step"] == 10
    assert plain["validation"]["val/all/bpb"] == 2.1
    assert plain["checkpoint"]["name"] == "step-00000010"
    assert plain["checkpoint"]["sha256"] == file_digest(run.checkpoints / "step-00000010" / "manifest.json")
    assert plain["made_from"]["tokenizer_digest"] == "e" * 64
    assert "a rehearsal" in plain["findings"]["BUDGET/short"]
    assert plain["configuration"]["train"]["validation"]["slice_bytes"] == 60000


def test_markdown_keeps_its_columns_whatever_the_text(run: Run) -> None:
    text = sheet(run).to_markdown()
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows
    assert all(line.replace("\\|", "").count("|") == 3 for line in rows)


def test_the_sheet_speaks_german(run: Run) -> None:
    with speaking("de"):
        text = sheet(run).to_markdown()
    assert "Messblatt von r" in text
    assert "Hash der Gewichte" in text


def test_a_bare_run_still_has_a_sheet(tmp_path: Path) -> None:
    made = Run.create(tmp_path / "bare", {"name": "bare"})
    atomic_json(tmp_path / "unrelated.json", {})
    plain = sheet(made).to_dict()
    assert plain["checkpoint"] == {}
    assert plain["identity"]["name"] == "bare"
    assert plain["progress"]["steps"] is None
