"""Checkpoints: whole or absent, verified before trusted, pruned without losing the last good one."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import orjson
import pytest
import torch
from safetensors.torch import load_file
from safetensors.torch import save as save_bytes
from toy import ToyModel, ToySource, settings

from umsicht.findings import UserError
from umsicht.recipe.train import CheckpointSettings
from umsicht.record import QUIET, Run
from umsicht.train import Retention, Snapshot, Trainer, best, checkpoints, find_latest, latest, load, save
from umsicht.train.checkpoints import SETTLED_STEPS, listed, prune, restore_model, snapshot_of
from umsicht.train.saver import Saver
from umsicht.train.tensors_file import write_tensors


def start(folder: Path) -> Run:
    return Run.create(folder, {"name": folder.name, "recipe": {}, "inputs": {}, "seed": 0})


def snapshot(step: int, **metrics: float) -> Snapshot:
    return Snapshot(
        step=step,
        tokens=step * 10,
        model={"w": torch.full((3,), float(step))},
        optimizer={"w/momentum": torch.zeros(3)},
        state={"step": step},
        metrics=metrics,
    )


def test_save_and_load(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    path = save(run, snapshot(7, **{"val/all/bpb": 2.0}))
    assert path.name == "step-00000007"
    loaded = load(path)
    assert (loaded.step, loaded.tokens, loaded.state) == (7, 70, {"step": 7})
    assert torch.equal(loaded.model["w"], torch.full((3,), 7.0))
    assert torch.equal(load_file(path / "model.safetensors")["w"], loaded.model["w"])


def test_the_file_is_the_one_that_the_library_writes(tmp_path: Path) -> None:
    """Streamed without a second copy, byte for byte the same."""
    tensors = {
        "b": torch.arange(6.0).reshape(2, 3),
        "a": torch.zeros((), dtype=torch.float32),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "empty": torch.zeros(0, 4),
    }
    write_tensors(tmp_path / "ours.safetensors", tensors, {"format": "pt"})
    assert (tmp_path / "ours.safetensors").read_bytes() == save_bytes(tensors, metadata={"format": "pt"})


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["flip", "remove", "cut"])
def test_damage_is_refused_and_the_run_falls_back(tmp_path: Path, file: str, damage: str) -> None:
    run = start(tmp_path / "run")
    save(run, snapshot(1))
    save(run, snapshot(2))
    path = run.checkpoints / "step-00000002" / file
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[-1] ^= 1
        path.write_bytes(data)
    elif damage == "cut":
        path.write_bytes(data[:-1])
    else:
        path.unlink()
    with pytest.raises(UserError, match=file):
        load(path.parent)
    found, findings = find_latest(run)
    assert found is not None and found.name == "step-00000001"
    assert findings[0].id == "CHECKPOINT/damaged" and findings[0].numbers["file"] == file


def test_a_flipped_bit_anywhere_in_the_manifest_itself_is_seen(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    save(run, snapshot(1))
    path = save(run, snapshot(2, **{"val/all/bpb": 2.0})) / "manifest.json"
    whole = path.read_bytes()
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 1 << (place % 8)
        path.write_bytes(data)
        found, findings = find_latest(run)
        assert found is not None and found.name == "step-00000001", (place, whole[place : place + 30])
        assert findings[0].id == "CHECKPOINT/damaged" and findings[0].numbers["file"] == "manifest.json"
    path.write_bytes(whole)
    assert latest(run) == path.parent


def test_a_manifest_of_the_first_schema_had_no_seal_and_is_still_read(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    path = save(run, snapshot(3)) / "manifest.json"
    old = orjson.loads(path.read_bytes())
    del old["seal"]
    path.write_bytes(orjson.dumps({**old, "schema": 1}))
    assert latest(run) == path.parent
    path.write_bytes(orjson.dumps(old))
    assert latest(run) is None


def test_a_folder_without_manifest_does_not_exist(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    save(run, snapshot(1))
    half = run.checkpoints / "step-00000009"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    assert latest(run) == run.checkpoints / "step-00000001"
    with pytest.raises(UserError):
        load(half)
    assert save(run, snapshot(9)) == half and latest(run) == half


def test_another_format_is_refused_with_the_converter_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(tmp_path / "run")
    monkeypatch.setattr(checkpoints, "FORMAT", 0)
    path = save(run, snapshot(1))
    monkeypatch.undo()
    with pytest.raises(UserError, match="umsicht import"):
        load(path)


def test_best_by_metric_and_direction(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    for step, value in ((1, 3.0), (2, 1.0), (3, 2.0)):
        save(run, snapshot(step, m=value))
    assert best(run, "m") == run.checkpoints / "step-00000002"
    assert best(run, "m", "up") == run.checkpoints / "step-00000001"
    assert best(run, "other") is None


def test_retention(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    for step in range(1, 9):
        save(run, snapshot(step, m=abs(step - 3)))
    prune(run, Retention(keep_last=2, keep_best={"m": "down"}, keep_every_steps=5))
    assert [c.step for c in listed(run)] == [1, 3, 5, 7, 8]


def test_of_checkpoints_close_together_one_is_older_than_the_reach_of_an_alarm(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    for step in range(10, 260, 10):
        save(run, snapshot(step))
        prune(run, Retention(keep_last=2))
        kept = [c.step for c in listed(run)]
        assert set(kept) >= {max(10, step - 10), step} and len(kept) <= 4
        assert step <= SETTLED_STEPS + 10 or step - 2 * SETTLED_STEPS - 20 <= kept[0] <= step - SETTLED_STEPS


def test_a_checkpoint_written_beside_the_others_lets_none_of_them_go(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    saver = Saver(run, CheckpointSettings(keep_last=1, keep_best={}), QUIET)
    for step in (100, 200, 220):
        saver.save(snapshot(step), wait=True)
    saver.save(snapshot(249), wait=True, beside=True)
    assert [c.step for c in listed(run)] == [100, 200, 220, 249]
    saver.save(snapshot(300), wait=True)
    assert [c.step for c in listed(run)] == [220, 249, 300]


def test_the_last_verified_checkpoint_is_never_deleted(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    for step in (1, 2, 3):
        save(run, snapshot(step))
    for step in (2, 3):
        (run.checkpoints / f"step-0000000{step}" / "model.safetensors").write_bytes(b"damaged")
    assert prune(run, Retention(keep_last=2)) == []
    assert latest(run) == run.checkpoints / "step-00000001"


def test_leftovers_of_killed_writers_are_swept(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    save(run, snapshot(1))
    leftover = run.checkpoints / ".tmp-step-00000002-4194000-abcdef12"
    leftover.mkdir()
    prune(run, Retention())
    assert not leftover.exists()


def test_tied_weights_are_kept_once_and_come_back_tied(tmp_path: Path) -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Linear(4, 4, bias=False)
            self.b = torch.nn.Linear(4, 4, bias=False)
            self.b.weight = self.a.weight

    source, target = Tied(), Tied()
    tensors = snapshot_of(source.state_dict())
    assert list(tensors) == ["a.weight"]
    restore_model(target, tensors)
    assert torch.equal(target.b.weight, source.a.weight) and target.a.weight is target.b.weight


def test_weights_that_do_not_fit_change_nothing() -> None:
    model = ToyModel()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    tensors = {k: torch.zeros_like(v) for k, v in before.items()}
    tensors["head.weight"] = torch.zeros(1, 1)
    with pytest.raises(UserError, match=r"head\.weight"):
        restore_model(model, tensors)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def disk_full(run: Run, snapshot: Snapshot) -> Path:
    raise OSError(errno.ENOSPC, "No space left on device", str(run.checkpoints))


@pytest.mark.parametrize("stop", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_full_disk_warns_or_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: bool, asynchronous: bool
) -> None:
    run = start(tmp_path / "run")
    policy: dict[str, Any] = {"every_steps": 2, "stop_when_full": stop, "asynchronous": asynchronous}
    monkeypatch.setattr(checkpoints, "save", disk_full)
    outcome = Trainer(ToyModel(), ToySource(), settings(6, checkpoint=policy), run).fit()
    assert outcome.reason == ("stopped-by-guard" if stop else "finished")
    first = run.findings()[0]
    assert first["id"] == "CHECKPOINT/not-written" and first["grade"] == ("stop" if stop else "warn")


def test_checkpoints_at_intervals_and_at_the_best(tmp_path: Path) -> None:
    from umsicht.train import CallHook

    def falls_then_rises(view: Any) -> None:
        view.log({"val/all/bpb": abs(view.step - 5) + 1.0})

    run = start(tmp_path / "run")
    policy = {"every_steps": 4, "keep_last": 1, "keep_every_steps": 4}
    Trainer(
        ToyModel(),
        ToySource(),
        settings(10, checkpoint=policy),
        run,
        hooks=(CallHook("v", falls_then_rises),),
    ).fit()
    assert [c.step for c in listed(run)] == [1, 4, 5, 8, 10]
    assert best(run, "val/all/bpb") == run.checkpoints / "step-00000005"
