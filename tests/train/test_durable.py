"""The second tier: copies elsewhere, places that fail, a new machine that goes on from a copy."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from toy import ToyModel, ToySource, settings

from umsicht.findings import UserError
from umsicht.record import Run
from umsicht.train import CallHook, Trainer
from umsicht.train.durable import DurableTier, Place


class Flaky(LocalFileSystem):  # type: ignore[misc]  # untyped in fsspec
    """A disk that refuses the first writes."""

    protocol = "flaky"
    refusals: ClassVar[list[int]] = [0]

    def put_file(self, *arguments: Any, **named: Any) -> None:
        if self.refusals[0] > 0:
            self.refusals[0] -= 1
            raise ConnectionError("the place does not answer")
        super().put_file(*arguments, **named)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(LocalFileSystem._strip_protocol(path.removeprefix("flaky://")))


fsspec.register_implementation("flaky", Flaky, clobber=True)


def train(folder: Path, url: str, steps: int = 6, **checkpoint: Any) -> Any:
    if not (folder / "manifest.json").exists():
        Run.create(folder, {"name": folder.name, "recipe": {}, "inputs": {}, "seed": 0})
    durable = {"url": url, "first_wait_s": 0.01, **checkpoint.pop("durable", {})}
    chosen = settings(
        steps,
        checkpoint={
            "every_steps": 1,
            "every_minutes": None,
            "asynchronous": False,
            "durable": durable,
            **checkpoint,
        },
    )
    # Copies are made in a thread beside training; a step takes its time.
    pause = CallHook("pause", lambda view: __import__("time").sleep(0.05))
    trainer = Trainer(ToyModel(), ToySource(), chosen, Run.open(folder), hooks=(pause,))
    return trainer.fit()


def test_the_newest_copies_are_kept_whole(tmp_path: Path) -> None:
    train(tmp_path / "run", str(tmp_path / "far"))
    place = Place(str(tmp_path / "far"), "run")
    assert place.steps()[-1] == 6
    assert len(place.steps()) <= 2


def test_a_place_that_refuses_at_first_gets_its_copy_in_the_end(tmp_path: Path) -> None:
    Flaky.refusals[0] = 4
    outcome = train(tmp_path / "run", f"flaky://{tmp_path / 'far'}")
    assert outcome.reason == "finished"
    assert Place(str(tmp_path / "far"), "run").steps()[-1] == 6
    assert [
        f["grade"] for f in Run.open(tmp_path / "run").findings() if f["id"] == "CHECKPOINT/not-durable"
    ] in ([], ["warn"])


def test_a_place_that_stays_away_stops_training_only_at_the_limit(tmp_path: Path) -> None:
    Flaky.refusals[0] = 10**6
    far = f"flaky://{tmp_path / 'far'}"
    on = train(tmp_path / "on", far, durable={"retries": 0})
    assert on.reason == "finished"
    stopped = train(tmp_path / "off", far, 20, durable={"retries": 0}, max_unsaved_steps=5)
    Flaky.refusals[0] = 0
    assert stopped.reason == "stopped-by-guard"
    assert stopped.finding.id == "CHECKPOINT/not-durable"
    assert 5 <= stopped.step <= 8


def test_a_new_machine_goes_on_from_the_copy(tmp_path: Path) -> None:
    far = str(tmp_path / "far")
    train(tmp_path / "a" / "run", far, 4)
    shutil.copytree(tmp_path / "a" / "run", tmp_path / "b" / "run")
    shutil.rmtree(tmp_path / "b" / "run" / "checkpoints")
    manifest = Run.open(tmp_path / "b" / "run")
    manifest.update_manifest(outcome=None, planned_steps=6, train_settings=None)
    outcome = train(tmp_path / "b" / "run", far, 6)
    assert outcome.reason == "finished"
    steps = [row["step"] for row in Run.open(tmp_path / "b" / "run").metrics().rows if row["segment"] == 1]
    assert steps == [5, 6]


def test_a_copy_cut_short_is_no_copy(tmp_path: Path) -> None:
    train(tmp_path / "run", str(tmp_path / "far"))
    place = Place(str(tmp_path / "far"), "run")
    newest = place.steps()[-1]
    (tmp_path / "far" / "run" / f"step-{newest:08d}" / "manifest.json").unlink()
    assert newest not in place.steps()


def test_an_unknown_place_is_refused_before_training(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", {"name": "run", "recipe": {}, "inputs": {}, "seed": 0})
    chosen = settings(2, checkpoint={"durable": {"url": "nowhere://bucket"}})
    with pytest.raises(UserError):
        DurableTier(run, chosen.checkpoint)
