"""The decoder: token ids in, logits out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .cache import KVCache
from .config import ModelConfig
from .layers import Attention, RMSNorm, Rotary, SwiGLU, TwoLayer, normalisation

Role = Literal["embedding", "value_embedding", "head", "matrix", "gate", "norm", "scalar"]


def document_mask(document_ids: Tensor) -> Tensor:
    """Bool `[batch, 1, seq, seq]`: a token sees itself and earlier tokens of its own document only."""
    seq = document_ids.shape[1]
    same = document_ids[:, :, None] == document_ids[:, None, :]
    causal = torch.ones(seq, seq, dtype=torch.bool, device=document_ids.device).tril()
    return (same & causal)[:, None]


def softcapped(logits: Tensor, cap: float | None) -> Tensor:
    """`cap · tanh(logits / cap)` (Gemma 2, 2024); unchanged where `cap` is `None`."""
    return logits if cap is None else cap * torch.tanh(logits / cap)


class Block(nn.Module):
    """Attention, then a feed-forward network, each on normalised input and added to the residual stream."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.attention_norm = normalisation(config, config.d_model)
        self.attention = Attention(config, layer)
        self.mlp_norm = normalisation(config, config.d_model)
        self.mlp: nn.Module = SwiGLU(config) if config.is_gated else TwoLayer(config)
        self.dropout = config.dropout_residual
        self.has_scalars = config.family == "fast"
        if self.has_scalars:
            self.residual_scale = nn.Parameter(torch.ones(()))
            self.first_scale = nn.Parameter(torch.full((), 0.1))

    def forward(
        self,
        x: Tensor,
        first: Tensor,
        rotation: tuple[Tensor, Tensor] | None,
        mask: Tensor | None,
        value_embedding: Tensor | None,
        cache: KVCache | None,
    ) -> Tensor:
        """`x [batch, seq, d_model]` → the same shape; `first` is the stream as it entered the first block."""
        if self.has_scalars:
            x = self.residual_scale * x + self.first_scale * first
        x = x + self._drop(self.attention(self.attention_norm(x), rotation, mask, value_embedding, cache))
        return x + self._drop(self.mlp(self.mlp_norm(x)))

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training) if self.dropout else x


class Transformer(nn.Module):
    """A decoder-only language model; `config.family` chooses its shape.

    Use `umsicht.model.build` to get one with initialised weights.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.d_model)
        self.value_embeds = nn.ModuleDict(
            {
                str(layer): nn.Embedding(config.vocab_size, config.kv_dim)
                for layer in range(config.n_layers)
                if config.has_value_embedding(layer)
            }
        )
        self.layers = nn.ModuleList(Block(config, layer) for layer in range(config.n_layers))
        self.norm = normalisation(config, config.d_model)
        self.embed_norm = (
            RMSNorm(config.d_model, config.norm_eps, False) if config.normalises_embedding else None
        )
        self.head = None if config.tied else nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.positions: nn.Embedding | None = None
        self.rotary: Rotary | None = None
        if config.has_learned_positions:
            self.positions = nn.Embedding(config.seq_len, config.d_model)
        else:
            direction = -1.0 if config.normalises_embedding else 1.0
            self.rotary = Rotary(config.head_dim, config.rope_theta, direction)

    @property
    def head_weight(self) -> Tensor:
        """The output matrix `[vocab, d_model]`; the embedding itself where the two are tied."""
        return self.embed.weight if self.head is None else self.head.weight

    def hidden(
        self,
        ids: Tensor,
        document_ids: Tensor | None = None,
        positions: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """The stream after the last normalisation, `[batch, seq, d_model]`.

        `ids [batch, seq]` int64. With `document_ids [batch, seq]`, attention stays inside a document; only learned
        positions restart with it, because rotary attention sees distances alone. With `cache`, `ids` are the tokens after those in it.
        """
        mask = None if document_ids is None else document_mask(document_ids)
        if cache is not None:
            if document_ids is not None:
                raise ValueError("document_ids and cache cannot be used together")
            mask = cache.mask(ids.shape[1]) if cache.length or cache.first is not None else None
            positions = cache.positions(ids.shape[1]) if positions is None else positions
        if positions is None:
            positions = self.positions_of(ids, document_ids)
        x = self.enter(ids, positions)
        x = self.through(x, x, ids, positions, mask, cache)
        if cache is not None:
            cache.advance(ids.shape[1])
        hidden: Tensor = self.norm(x)
        return hidden

    def enter(self, ids: Tensor, positions: Tensor) -> Tensor:
        """The stream as it enters the first block, `[batch, seq, d_model]`."""
        x: Tensor = self.embed(ids)
        if self.positions is not None:
            x = x + self.positions(positions)
        if self.embed_norm is not None:
            x = self.embed_norm(x)
        if self.config.dropout_embedding:
            x = F.dropout(x, self.config.dropout_embedding, self.training)
        return x

    def through(
        self,
        x: Tensor,
        first: Tensor,
        ids: Tensor,
        positions: Tensor,
        mask: Tensor | None,
        cache: KVCache | None = None,
        keys: Sequence[str] | None = None,
    ) -> Tensor:
        """The stream after the blocks named by `keys` (all that are here); `first` is the stream as it entered the model's first block."""
        rotation = None if self.rotary is None else self.rotary(positions)
        for key in [name for name, _ in self.layers.named_children()] if keys is None else keys:
            layer = self.layers.get_submodule(key)
            value_embedding = self.value_embeds[key](ids) if key in self.value_embeds else None
            x = layer(x, first, rotation, mask, value_embedding, cache)
        return x

    def positions_of(self, ids: Tensor, document_ids: Tensor | None) -> Tensor:
        """Positions of `ids [batch, seq]`: `[seq]`, or `[batch, seq]` where learned ones restart with each document."""
        index = torch.arange(ids.shape[1], device=ids.device)
        if self.positions is None or document_ids is None:
            return index
        begins = torch.ones_like(document_ids, dtype=torch.bool)
        begins[:, 1:] = document_ids[:, 1:] != document_ids[:, :-1]
        return index - torch.where(begins, index, 0).cummax(dim=1).values

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits `[..., vocab]` of `hidden [..., d_model]`, bounded where the configuration has a soft cap."""
        return softcapped(F.linear(hidden, self.head_weight), self.config.softcap)

    def forward(
        self,
        ids: Tensor,
        document_ids: Tensor | None = None,
        positions: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Logits `[batch, seq, vocab]`; arguments as in `hidden`."""
        return self.logits(self.hidden(ids, document_ids, positions, cache))

    def roles(self) -> Iterator[tuple[str, nn.Parameter, Role]]:
        """Every parameter with what it is, for optimizers that treat kinds differently; a tied matrix comes once."""
        for name, parameter in self.named_parameters():
            yield name, parameter, role_of(name)

    def n_parameters(self, *, with_embeddings: bool = True) -> int:
        """Number of weights; without embeddings: those of the blocks and norms only (what C = 6·N·D counts)."""
        skipped: set[Role] = set() if with_embeddings else {"embedding", "value_embedding", "head"}
        return sum(p.numel() for _, p, role in self.roles() if role not in skipped)


def role_of(name: str) -> Role:
    """The role of the parameter called `name` in a `Transformer`."""
    if name.startswith("value_embeds."):
        return "value_embedding"
    if name.startswith(("embed.", "positions.")):
        return "embedding"
    if name.startswith("head."):
        return "head"
    if name.endswith(("_scale", ".bias")):
        return "scalar"
    if "norm." in name:
        return "norm"
    return "gate" if ".value_gate." in name else "matrix"
