"""What a run carries from step to step, and its passage into a checkpoint and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from umsicht.findings import UserError
from umsicht.tokens.batch import BatchSource
from umsicht.train import checkpoints, randomness
from umsicht.train.early import BestValues, EarlyStopping
from umsicht.train.hooks import HookSet
from umsicht.train.optimizer import Optimizer
from umsicht.words import t


@dataclass
class Position:
    """Where the run stands: `step` optimizer steps done, `tokens` seen, `seconds` of wall time in all segments."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0


@dataclass
class Carried:
    """All parts of a run that have state. The data cursor is the step; the schedule is arithmetic of the step."""

    model: nn.Module
    optimizer: Optimizer
    source: BatchSource
    hooks: HookSet
    position: Position
    best: BestValues
    early: EarlyStopping | None

    def small_state(self) -> dict[str, Any]:
        """Everything but tensors, JSON-able."""
        return {
            "schema": 1,
            "step": self.position.step,
            "tokens": self.position.tokens,
            "seconds": self.position.seconds,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "random": randomness.capture(),
            "source": self.source.state(),
            "hooks": self.hooks.state_dict(),
            "best": self.best.state_dict(),
            "early_stopping": self.early.state_dict() if self.early else None,
        }

    def snapshot(self, row: dict[str, Any]) -> checkpoints.Snapshot:
        """A copy of everything, taken at a step boundary; `row` is the step's row of figures."""
        config: Any = getattr(self.model, "config", None)
        return checkpoints.Snapshot(
            step=self.position.step,
            tokens=self.position.tokens,
            model=checkpoints.snapshot_of(self.model.state_dict()),
            optimizer=checkpoints.snapshot_of(self.optimizer.state_tensors()),
            state=self.small_state(),
            config=config.to_dict() if hasattr(config, "to_dict") else None,
            metrics=figures(row),
        )

    def restore(
        self, loaded: checkpoints.Loaded, fill: Callable[[Carried, Path], None] | None = None
    ) -> list[str]:
        """Take a checkpoint back. Returns names of hooks without saved state. Raises UserError where it does not belong to this run.

        `fill` puts the tensors in place where ranks hold parts of them.
        """
        saved, own = loaded.state["source"], self.source.state()
        if saved != _plain(own):
            changed = sorted(k for k in {*saved, *own} if saved.get(k) != _plain(own).get(k))
            raise UserError(
                t("train.data_changed", names=", ".join(changed)),
                where=str(loaded.path),
                why=t("train.data_changed_why"),
                fix=t("train.data_changed_fix"),
            )
        if fill is not None:
            fill(self, loaded.path)
        else:
            checkpoints.restore_model(self.model, loaded.model, str(loaded.path))
            self.optimizer.load_state_tensors(loaded.optimizer)
        self.position = Position(loaded.step, loaded.tokens, float(loaded.state["seconds"]))
        self.best.load_state_dict(loaded.state["best"])
        if self.early and loaded.state["early_stopping"]:
            self.early.load_state_dict(loaded.state["early_stopping"])
        missing = self.hooks.load_state_dict(loaded.state["hooks"])
        randomness.restore(loaded.state["random"])
        return missing


def figures(row: dict[str, Any]) -> dict[str, float]:
    """The figures of a row that a checkpoint is chosen by."""
    return {
        k: float(v) for k, v in row.items() if isinstance(v, int | float) and k.startswith(("val/", "train"))
    }


def _plain(state: dict[str, Any]) -> dict[str, Any]:
    """As it comes back from JSON (tuples become lists)."""
    import orjson

    plain: dict[str, Any] = orjson.loads(
        orjson.dumps(state, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    )
    return plain
