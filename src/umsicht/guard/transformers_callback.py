"""The monitors in a `transformers.Trainer`: `Trainer(…, callbacks=[UmsichtCallback("runs/mine")])`. Needs the extra `hf`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from umsicht.findings import Finding
from umsicht.guard.watch import GuardStop, Watch


class UmsichtCallback(TrainerCallback):
    """Watches the loss that the trainer logs and the optimizer it steps; a stop ends the training before the weights move."""

    def __init__(self, folder: str | Path, **options: Any) -> None:
        self.folder = Path(folder)
        self.options = options
        self.watching: Watch | None = None

    @property
    def findings(self) -> list[Finding]:
        """What was seen so far."""
        return self.watching.findings if self.watching is not None else []

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **_: Any
    ) -> None:
        """Attach to the trainer's own model and optimizer."""
        inner = getattr(optimizer, "optimizer", optimizer)
        self.watching = Watch(self.folder, model, inner, raises=False, **self.options).__enter__()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """A step whose update was taken away is the last one."""
        if self.watching is not None and self.watching.stopped is not None:
            control.should_training_stop = True
        return control

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> Any:
        """The trainer's mean loss since its last log, and whatever figures it logs beside it (rewards, divergence, entropy)."""
        if self.watching is not None and self.watching.stopped is None and logs and "loss" in logs:
            if float(getattr(state, "epoch", 0) or 0) >= 1:
                # From the second pass on every row has come before.
                self.watching.repeats_are_fine = True
            try:
                self.watching.step(float(logs["loss"]), **_figures(logs))
            except GuardStop:
                control.should_training_stop = True
        return control

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Let go."""
        if self.watching is not None:
            self.watching.__exit__(None, None, None)


_OWN = {"loss", "grad_norm", "learning_rate", "epoch", "step", "total_flos"}
"""What the watch writes itself, or the record has a place of its own for."""


def _figures(logs: dict[str, Any]) -> dict[str, float]:
    """Numbers of a trainer's log under the names of a training record."""
    return {
        f"train/{name}": float(value)
        for name, value in logs.items()
        if name not in _OWN and isinstance(value, int | float) and not isinstance(value, bool)
    }
