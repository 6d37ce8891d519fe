"""Copies of the figures for other tools. Each is optional, imported only when asked for, with its telemetry switched off first."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from umsicht.findings import UserError
from umsicht.record import Run
from umsicht.words import t


class Writer(Protocol):
    """Where a row of figures goes besides `metrics.jsonl`."""

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """One row of finite numbers."""

    def close(self) -> None:
        """The run ended."""


def _module(name: str, package: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UserError(t("train.writer_missing", name=package), fix=f"pip install {package}") from None


class TensorBoardWriter:
    """Event files in `<run>/tensorboard`."""

    def __init__(self, run: Run) -> None:
        _module("tensorboard", "tensorboard")
        from torch.utils.tensorboard.writer import SummaryWriter

        self._writer: Any = SummaryWriter(str(run.folder / "tensorboard"))

    def write(self, step: int, row: Mapping[str, float]) -> None:
        for name, value in row.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class WandbWriter:
    """Weights & Biases; offline unless the user set WANDB_MODE."""

    def __init__(self, run: Run) -> None:
        os.environ.setdefault("WANDB_MODE", "offline")
        os.environ.setdefault("WANDB_SILENT", "true")
        self._run = _module("wandb", "wandb").init(project="umsicht", name=run.name, dir=str(run.folder))

    def write(self, step: int, row: Mapping[str, float]) -> None:
        self._run.log(dict(row), step=step)

    def close(self) -> None:
        self._run.finish()


class TrackioWriter:
    """trackio's local store."""

    def __init__(self, run: Run) -> None:
        os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        self._trackio = _module("trackio", "trackio")
        self._trackio.init(project="umsicht", name=run.name)

    def write(self, step: int, row: Mapping[str, float]) -> None:
        self._trackio.log(dict(row), step=step)

    def close(self) -> None:
        self._trackio.finish()


_WRITERS: dict[str, Callable[[Run], Writer]] = {
    "tensorboard": TensorBoardWriter,
    "wandb": WandbWriter,
    "trackio": TrackioWriter,
}


def open_writers(names: list[str], run: Run) -> list[Writer]:
    """The writers called `names`. Raises UserError where a package is not installed."""
    return [_WRITERS[name](run) for name in names]
