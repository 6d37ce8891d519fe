"""The verb `train`: what it answers before anything is computed; and copies of the figures for other tools."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from umsicht.cli.train import train, unfinished
from umsicht.findings import UserError
from umsicht.record import Run
from umsicht.train.writers import open_writers


def recipe(folder: Path) -> Path:
    path = folder / "small.yaml"
    path.write_text("name: small\npreset: tiny\n", encoding="utf-8")
    return path


def test_a_dry_run_draws_the_schedule_and_makes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert train(recipe(tmp_path), dry_run=True) == 0
    shown = capsys.readouterr().out
    assert "█" in shown and '"newton_schulz_steps"' in shown
    assert [p.name for p in tmp_path.iterdir()] == ["small.yaml"]


def test_nothing_to_train_and_nothing_to_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        train()
    assert "--resume" in error.value.fix
    with pytest.raises(UserError):
        train(resume=True)


def test_resume_takes_the_newest_run_that_has_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, outcome in (
        ("a", None),
        ("b", {"reason": "interrupted", "step": 3}),
        ("c", {"reason": "finished", "step": 9}),
    ):
        head = {"name": name, "recipe": {}, "inputs": {}, "seed": 0}
        run = Run.create(tmp_path / "runs" / name, head)
        run.update_manifest(
            created=f"2026-01-0{ord(name) - 96}T00:00:00Z", **({"outcome": outcome} if outcome else {})
        )
    assert unfinished("").name == "b"
    assert unfinished("c").name == "c"


def test_a_writer_that_is_not_installed_names_the_package(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", {"name": "run", "recipe": {}, "inputs": {}, "seed": 0})
    if importlib.util.find_spec("tensorboard"):
        (writer,) = open_writers(["tensorboard"], run)
        writer.write(1, {"train/loss": 2.0})
        writer.close()
        assert any((run.folder / "tensorboard").iterdir())
    else:
        with pytest.raises(UserError) as error:
            open_writers(["tensorboard"], run)
        assert "tensorboard" in error.value.fix
