"""A run goes on at another number of processes and in another layout: the same data in the same order, the same losses."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from together import torchrun

from umsicht.model import load_weights
from umsicht.record import Run
from umsicht.record.manifest import verify
from umsicht.train import checkpoints

STEPS = 12


def leg(folder: Path, n: int, until: int, **parallel: Any) -> None:
    torchrun(
        n,
        "chain_main.py",
        {"folder": str(folder), "until": until, "steps": STEPS, "parallel": parallel},
        timeout=1800,
    )


def rows(folder: Path) -> list[dict[str, Any]]:
    return Run.open(folder).metrics().rows


def read_once_an_epoch(folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    for first in range(0, STEPS, 3):
        read = Counter(row for line in lines[first : first + 3] for row in line["rows"])
        assert read == Counter(range(24))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone") / "run"
    leg(folder, 1, STEPS)
    return folder


def same_run(folder: Path, alone: Path) -> None:
    mine, theirs = rows(folder), rows(alone)
    assert [row["step"] for row in mine] == [row["step"] for row in theirs]
    assert [row["train/lr"] for row in mine] == [row["train/lr"] for row in theirs]
    apart = max(
        abs(a["train/loss"] - b["train/loss"]) / b["train/loss"] for a, b in zip(mine, theirs, strict=True)
    )
    assert apart <= 1e-5
    read_once_an_epoch(folder)


@pytest.mark.long
def test_four_then_two_then_three_processes(tmp_path: Path, alone: Path) -> None:
    folder = tmp_path / "run"
    leg(folder, 4, 4)
    leg(folder, 2, 8)
    leg(folder, 3, STEPS)
    same_run(folder, alone)


@pytest.mark.long
@pytest.mark.parametrize(
    "parallel", [{"data": 4}, {"shard": 2, "tensor": 2}, {"data": 2, "pipeline": 2}], ids=str
)
def test_a_restart_of_four_ranks_gives_the_same_bits(tmp_path: Path, parallel: dict[str, int]) -> None:
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    leg(straight, 4, STEPS, **parallel)
    for until in (5, 8, STEPS):
        leg(stopped, 4, until, **parallel)
    assert [row["train/loss"] for row in rows(stopped)] == [row["train/loss"] for row in rows(straight)]
    mine, theirs = (
        checkpoints.load(checkpoints.listed(Run.open(one))[-1].path) for one in (stopped, straight)
    )
    assert mine.step == theirs.step == STEPS
    assert mine.model.keys() == theirs.model.keys()
    assert all(torch.equal(mine.model[name], value) for name, value in theirs.model.items())


@pytest.mark.long
def test_sharded_then_tensor_then_pipeline_then_one_process(tmp_path: Path, alone: Path) -> None:
    folder = tmp_path / "run"
    leg(folder, 4, 3, shard=4)
    parts = sorted(p.name for p in (folder / "checkpoints" / "step-00000003" / "shards").iterdir())
    assert len(parts) == 5, "four parts and where they lie"
    leg(folder, 2, 6, tensor=2)
    leg(folder, 2, 9, pipeline=2)
    leg(folder, 1, STEPS)
    same_run(folder, alone)


@pytest.mark.long
def test_a_sharded_checkpoint_is_verified_and_opens_as_a_model(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    leg(folder, 2, 2, shard=2)
    (path,) = [one.path for one in checkpoints.listed(Run.open(folder))]
    assert verify(path) == []
    loaded = checkpoints.load(path)
    model = load_weights(path)
    assert all(torch.equal(loaded.model[name], value) for name, value in model.state_dict().items())
    part = next((path / "shards").glob("__1_*"))
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(bytes(data))
    assert [one.path for one in verify(path)] == [f"shards/{part.name}"]
    assert checkpoints.find_latest(Run.open(folder))[0] is None
