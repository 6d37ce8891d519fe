"""The monitors in a `transformers.Trainer`: `Trainer(…, callbacks=[UmsichtCallback("runs/mine")])`. Needs the extra `hf`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from umsicht.findings import Finding
from umsicht.guard import transformers_arguments
from umsicht.guard.transformers_loss import AccumulatedLoss
from umsicht.guard.watch import GuardStop, Watch


class UmsichtCallback(TrainerCallback):
    """Watches the loss that the trainer logs and the optimizer it steps; a stop ends the training before the weights move."""

    def __init__(self, folder: str | Path, **options: Any) -> None:
        self.folder = Path(folder)
        self.options = options
        self.watching: Watch | None = None
        self._loss: AccumulatedLoss | None = None

    @property
    def findings(self) -> list[Finding]:
        """What was seen so far."""
        return self.watching.findings if self.watching is not None else []

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **more: Any
    ) -> None:
        """Attach to the trainer's own model and optimizer; judge its arguments."""
        inner = getattr(optimizer, "optimizer", optimizer)
        options = {"tokenizer": more.get("processing_class"), **self.options}
        self.watching = Watch(self.folder, model, inner, raises=False, **options).__enter__()
        self._loss = AccumulatedLoss(model, int(args.gradient_accumulation_steps))
        for found in transformers_arguments.judge(args, int(state.max_steps)):
            self.watching.say(found)

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
                self.watching.expect_repeats()
            self._compare(float(logs["loss"]), int(state.global_step))
            try:
                self.watching.step(float(logs["loss"]), number=int(state.global_step), **_figures(logs))
            except GuardStop:
                control.should_training_stop = True
        return control

    def _compare(self, loss: float, steps: int) -> None:
        """The first loss that is told covers all steps so far."""
        found = self._loss.logged(loss, steps) if self._loss is not None else None
        self._loss = None
        if found is not None and self.watching is not None:
            self.watching.say(found)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Let go."""
        if self._loss is not None:
            self._loss.close()
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
