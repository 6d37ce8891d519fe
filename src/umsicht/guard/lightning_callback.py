"""The monitors in Lightning: `Trainer(callbacks=[UmsichtCallback("runs/mine")])`. Needs the package `lightning`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.callbacks import Callback

from umsicht.findings import Finding
from umsicht.guard.watch import GuardStop, Watch


class UmsichtCallback(Callback):
    """Watches every training batch's loss and the optimizer; a stop ends the fit before the weights move."""

    def __init__(self, folder: str | Path, **options: Any) -> None:
        self.folder = Path(folder)
        self.options = options
        self.watching: Watch | None = None

    @property
    def findings(self) -> list[Finding]:
        """What was seen so far."""
        return self.watching.findings if self.watching is not None else []

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Attach to the module and its first optimizer."""
        optimizer = trainer.optimizers[0] if trainer.optimizers else None
        # Lightning computes the gradient inside optimizer.step: the optimizer's own hooks would come too early.
        self.watching = Watch(
            self.folder, pl_module, optimizer, raises=False, listens=False, **self.options
        ).__enter__()

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Gradients are there, weights have not moved."""
        if self.watching is not None:
            self.watching.before_update()
            if self.watching.stopped is not None:
                trainer.should_stop = True

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """The loss of the batch just trained on."""
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if self.watching is not None and self.watching.stopped is None and isinstance(loss, torch.Tensor):
            self.watching.after_update()
            try:
                self.watching.step(loss)
            except GuardStop:
                trainer.should_stop = True

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Let go."""
        if self.watching is not None:
            self.watching.__exit__(None, None, None)
