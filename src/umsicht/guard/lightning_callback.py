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
        self.watching = Watch(self.folder, pl_module, optimizer, **self.options).__enter__()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """The loss of the batch just trained on."""
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if self.watching is not None and isinstance(loss, torch.Tensor):
            try:
                self.watching.step(loss)
            except GuardStop:
                trainer.should_stop = True

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Let go."""
        if self.watching is not None:
            self.watching.__exit__(None, None, None)
