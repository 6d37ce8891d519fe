"""Memory of a training before it runs: weights, gradients, optimizer, what a step needs in between, and a checkpoint being written.

Bytes in tensors are counted by running the step on tensors without storage (`umsicht.train.memory`). What the system then really holds is more: the C
library keeps blocks that are free between live ones. That surplus was measured; a trial of the model itself, which every plan makes, measures it anew.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from umsicht.model import ModelConfig, Transformer
from umsicht.recipe.train import TrainSettings
from umsicht.train.memory import step_bytes

ALLOCATOR_SHARE = 0.55
"""What glibc's allocator keeps free between live blocks, as a share of what a step needs in between: 0.4 to 0.75 measured (docs/measured/log.md)."""


@dataclass(frozen=True)
class Memory:
    """Bytes of each part, on one device. `snapshot` exists while a checkpoint is written; on a GPU it lies in host memory.

    `between` is what a step needs besides weights, gradients and optimizer state at its worst moment: activations, slopes, one chunk of logits,
    or what the optimizer computes with. `activations` is the part of it that the forward pass keeps. `surplus` is what the allocator and the kernels
    hold beyond the tensors. `saves_beside`: a step goes on while a checkpoint is written.
    """

    weights: int
    gradients: int
    optimizer: int
    activations: int
    between: int
    snapshot: int
    surplus: int
    saves_beside: bool

    @property
    def tensors(self) -> int:
        """Bytes alive in tensors at the peak of a step: what an allocator without surplus would hold."""
        return self.training - self.surplus

    @property
    def training(self) -> int:
        """Peak of a step."""
        return self.weights + self.gradients + self.optimizer + self.between + self.surplus

    @property
    def saving(self) -> int:
        """Peak while a checkpoint is written from the same memory."""
        return self.training - (0 if self.saves_beside else self.between) + self.snapshot

    @property
    def peak(self) -> int:
        """The larger of both: what a processor's memory must hold beside the program itself."""
        return max(self.training, self.saving)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {**asdict(self), "training": self.training, "saving": self.saving, "peak": self.peak}


def with_trial(memory: Memory, trial_peak: int) -> Memory:
    """`memory` with the surplus that a trial on this machine showed in the place of the usual one.

    A trial computes and saves one after the other, so that whatever it held beyond the larger of both is surplus.
    """
    state = memory.weights + memory.gradients + memory.optimizer
    floor = max(memory.tensors, state + memory.snapshot)
    return replace(memory, surplus=max(0, trial_peak - floor)) if trial_peak else memory


def predict(
    config: ModelConfig,
    train: TrainSettings,
    micro_batch: int,
    *,
    precision: str = "float32",
    shards: int = 1,
) -> Memory:
    """Memory for `micro_batch` rows at a time. `precision` is `float32`, `bfloat16` (weights, float32 masters) or `autocast`.

    With `shards` devices in a fully sharded layout (ZeRO stage 3; Rajbhandari et al. 2020, figure 1) weights, gradients and optimizer are divided
    among them; activations are not.
    """
    weights = weight_bytes(config, precision)
    rows = max(1, train.global_batch_tokens // config.seq_len)
    counted = step_bytes(config, train, micro_batch, precision=precision, accumulates=rows > micro_batch)
    optimizer = counted.state - weights
    between = max(counted.peak - counted.state - counted.gradients, 0)
    return Memory(
        weights=weights // shards,
        gradients=counted.gradients // shards,
        optimizer=optimizer // shards,
        activations=kept_for_backward(config, micro_batch, precision),
        between=between,
        snapshot=(weights + optimizer) // shards,
        surplus=int(ALLOCATOR_SHARE * between),
        saves_beside=train.checkpoint.asynchronous,
    )


def weight_bytes(config: ModelConfig, precision: str = "float32") -> int:
    """Bytes of the weights as they compute."""
    with torch.device("meta"):
        model = Transformer(config)
    half = precision == "bfloat16"
    return sum(p.numel() * (2 if half and p.ndim else 4) for p in model.parameters())


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
                if parameter.ndim:
                    parameter.data = parameter.data.to(torch.bfloat16)
        own = {tensor.untyped_storage()._cdata for tensor in (*model.parameters(), *model.buffers())}
        ids = torch.zeros(rows, config.seq_len, dtype=torch.long)
        autocast = torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast")
        with autocast, torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            hidden = model.hidden(ids)
        # The stream after the last norm and its gradient live on while the loss is computed in chunks.
        loss = 2 * hidden.numel() * hidden.element_size()
    return loss + sum(size for storage, (size, _) in kept.items() if storage not in own)
