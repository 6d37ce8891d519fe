"""Memory of a training before it runs: weights, gradients, optimizer, what the forward pass keeps, logits, and a checkpoint being written.

What the forward pass keeps for the backward pass is not estimated by a formula that ages: the model is run on tensors without storage, and every
tensor that autograd would keep is counted once.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from umsicht.model import ModelConfig, Transformer
from umsicht.recipe.train import TrainSettings

FLOAT32 = 4
LOSS_CHUNK_ROWS = 512
LOGITS_COPIES = 3
"""Logits, their float32 form or exponentials, and their slope exist at the same time for one chunk of rows."""
SERIALISED_COPIES = 2
"""A file of a checkpoint is built in memory: the tensors' bytes, and the whole file."""


@dataclass(frozen=True)
class Memory:
    """Bytes of each part, on one device. `snapshot` and `serialised` exist while a checkpoint is written; on a GPU they lie in host memory."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    logits: int
    snapshot: int
    serialised: int

    @property
    def training(self) -> int:
        """Peak of a step."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.logits

    @property
    def saving(self) -> int:
        """Peak while a checkpoint is written from the same memory."""
        return self.weights + self.gradients + self.optimizer + self.snapshot + self.serialised

    @property
    def peak(self) -> int:
        """The larger of both: what a processor's memory must hold beside the program itself."""
        return max(self.training, self.saving)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {**asdict(self), "training": self.training, "saving": self.saving, "peak": self.peak}


def predict(
    config: ModelConfig,
    train: TrainSettings,
    micro_batch: int,
    *,
    precision: str = "float32",
    shards: int = 1,
) -> Memory:
    """Memory for `micro_batch` rows. `precision` is `float32`, `bfloat16` (weights, float32 masters) or `autocast`.

    With `shards` devices in a fully sharded layout (ZeRO stage 3; Rajbhandari et al. 2020, figure 1) weights, gradients and optimizer are divided
    among them; activations are not.
    """
    by_role: dict[str, int] = {}
    with torch.device("meta"):
        model = Transformer(config)
    for _, parameter, role in model.roles():
        by_role[role] = by_role.get(role, 0) + parameter.numel()
    n = sum(by_role.values())
    width = 2 if precision == "bfloat16" else FLOAT32
    momentum = by_role.get("matrix", 0) if train.optimizer.kind == "muon" else 0
    optimizer = FLOAT32 * (momentum + 2 * (n - momentum))
    if precision == "bfloat16":
        optimizer += FLOAT32 * n
    weights = width * n
    keeps = kept_for_backward(config, micro_batch, precision)
    rows = min(LOSS_CHUNK_ROWS, micro_batch * config.seq_len)
    logits = LOGITS_COPIES * rows * config.vocab_size * FLOAT32 + FLOAT32 * config.vocab_size * config.d_model
    return Memory(
        weights=weights // shards,
        gradients=weights // shards,
        optimizer=optimizer // shards,
        activations=keeps,
        logits=logits,
        snapshot=(weights + optimizer) // shards,
        serialised=SERIALISED_COPIES * max(weights, optimizer) // shards,
    )


def kept_for_backward(config: ModelConfig, rows: int, precision: str = "float32") -> int:
    """Bytes that a forward pass over `rows` rows keeps for the backward pass, parameters left out."""
    kept: dict[int, tuple[int, torch.UntypedStorage]] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = (storage.nbytes(), storage)
        return tensor

    with FakeTensorMode():
        model = Transformer(config)
        if precision == "bfloat16":
            for parameter in model.parameters():
                if parameter.ndim >= 2:
                    parameter.data = parameter.data.to(torch.bfloat16)
        own = {tensor.untyped_storage()._cdata for tensor in (*model.parameters(), *model.buffers())}
        ids = torch.zeros(rows, config.seq_len, dtype=torch.long)
        autocast = torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast")
        with autocast, torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            hidden = model.hidden(ids)
        # The stream after the last norm and its gradient live on while the loss is computed in chunks.
        loss = 2 * hidden.numel() * hidden.element_size()
    return loss + sum(size for storage, (size, _) in kept.items() if storage not in own)
