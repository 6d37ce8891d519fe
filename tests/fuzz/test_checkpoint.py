"""A checkpoint with any damage is refused with a sentence, and never taken for the newest."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from umsicht.findings import UserError
from umsicht.record import Run
from umsicht.record.manifest import read_manifest
from umsicht.train import checkpoints
from umsicht.train.checkpoints import Snapshot

FILES = ("model.safetensors", "optimizer.safetensors", "state.json", "manifest.json")


def snapshot(step: int) -> Snapshot:
    """A checkpoint of a few numbers."""
    torch.manual_seed(step)
    return Snapshot(
        step=step,
        tokens=64 * step,
        model={"layer.weight": torch.randn(4, 4), "layer.bias": torch.randn(4)},
        optimizer={"layer.weight/momentum": torch.randn(4, 4)},
        state={"step": step},
        config={"family": "test"},
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A run with two checkpoints."""
    made = Run.create(tmp_path_factory.mktemp("runs") / "run", {"name": "fuzz"})
    for step in (1, 2):
        checkpoints.save(made, snapshot(step))
    yield made


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    name=st.sampled_from(FILES),
    place=st.floats(0, 1, exclude_max=True),
    kind=st.sampled_from(("flip", "cut", "insert", "empty", "remove")),
    bit=st.integers(0, 7),
)
def test_damage_anywhere_is_refused_and_the_one_before_is_taken(
    run: Run, tmp_path_factory: pytest.TempPathFactory, name: str, place: float, kind: str, bit: int
) -> None:
    folder = tmp_path_factory.mktemp("copy") / "run"
    shutil.copytree(run.folder, folder)
    copy = Run.open(folder)
    newest = checkpoints.latest(copy)
    assert newest is not None
    file = newest / name
    data = file.read_bytes()
    damaged = damage(data, int(place * len(data)), kind, bit)
    if kind == "remove":
        file.unlink()
    else:
        file.write_bytes(damaged)
    if name == "manifest.json" and kind != "remove" and same_meaning(file, run):
        return
    chosen = checkpoints.latest(copy)
    assert chosen is not None and chosen.name == "step-00000001"
    with pytest.raises(UserError):
        checkpoints.load(newest)


def damage(data: bytes, at: int, kind: str, bit: int) -> bytes:
    """The bytes of a file after an accident."""
    if kind == "flip":
        return data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]
    return {"cut": data[:at], "insert": data[:at] + b"\x00" + data[at:], "empty": b""}.get(kind, data)


def same_meaning(file: Path, run: Run) -> bool:
    """Whether a damaged manifest still says the same (a changed space between two words does)."""
    try:
        return read_manifest(file.parent) == read_manifest(run.checkpoints / file.parent.name)
    except (UserError, ValueError):
        return False
