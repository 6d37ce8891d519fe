"""Keys and values of the tokens already read, so that generation reads each token once."""

from __future__ import annotations

import torch
from torch import Tensor

from .config import ModelConfig


class KVCache:
    """Room for `max_tokens` tokens of `batch` rows. `length` tokens are filled, the same for every row.

    `first` (optional, `[batch]`) is the index of each row's first real token, for rows padded on the left: attention
    never looks before it, and positions count from it.
    """

    def __init__(
        self,
        config: ModelConfig,
        batch: int,
        max_tokens: int,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        first: Tensor | None = None,
    ) -> None:
        shape = (batch, config.n_kv_heads, max_tokens, config.head_dim)
        self.keys = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(config.n_layers)]
        self.values = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(config.n_layers)]
        self.length = 0
        self.max_tokens = max_tokens
        self.first = first

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store `keys` and `values` `[batch, n_kv_heads, new, head_dim]`; return all up to and with them.

        `length` moves only with `advance`, once every layer has stored its part. Raises `ValueError` when full.
        """
        end = self.length + keys.shape[2]
        if end > self.max_tokens:
            raise ValueError(f"the cache holds {self.max_tokens} tokens, {end} were asked for")
        self.keys[layer][:, :, self.length : end] = keys
        self.values[layer][:, :, self.length : end] = values
        return self.keys[layer][:, :, :end], self.values[layer][:, :, :end]

    def advance(self, n_tokens: int) -> None:
        """Count `n_tokens` more as filled."""
        self.length += n_tokens

    def positions(self, n_new: int) -> Tensor:
        """Positions of the next `n_new` tokens, `[new]`, or `[batch, new]` with left padding."""
        index = torch.arange(self.length, self.length + n_new, device=self.keys[0].device)
        if self.first is None:
            return index
        return (index[None, :] - self.first[:, None]).clamp(min=0)

    def mask(self, n_new: int) -> Tensor | None:
        """What the next `n_new` tokens may see: bool `[batch or 1, 1, new, seen]`; `None` where all of it."""
        if self.first is None and n_new == 1:
            return None
        device = self.keys[0].device
        key = torch.arange(self.length + n_new, device=device)
        query = torch.arange(self.length, self.length + n_new, device=device)
        allowed = (key[None, :] <= query[:, None])[None]
        if self.first is not None:
            real = key[None, None, :] >= self.first[:, None, None]
            itself = (key[None, :] == query[:, None])[None]
            allowed = (allowed & real) | itself
        return allowed[:, None]
