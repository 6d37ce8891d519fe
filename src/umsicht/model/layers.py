"""The parts of a block: normalisation, rotary positions, attention, the two feed-forward networks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import attend, fused
from .cache import KVCache
from .config import ModelConfig
from .lora import linear

VALUE_GATE_WIDTH = 32


class RMSNorm(nn.Module):
    """Root-mean-square normalisation over the last axis (Zhang and Sennrich 2019), with or without a learned scale.

    Computed in float32 whatever the input's type, as Hugging Face's Qwen3 does.
    """

    weight: Tensor | None

    def __init__(self, width: int, eps: float, has_weight: bool) -> None:
        super().__init__()
        self.width = width
        self.eps = eps
        self.register_parameter("weight", nn.Parameter(torch.ones(width)) if has_weight else None)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `x [..., width]`."""
        if fused.fuses(x, self.weight):
            return fused.rms_norm(x, self.weight, self.eps)
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        normed = wide.to(x.dtype)
        return normed if self.weight is None else self.weight.to(x.dtype) * normed


def normalisation(config: ModelConfig, width: int) -> nn.Module:
    """What the family normalises with: RMSNorm, or LayerNorm with bias (gpt2)."""
    if config.family == "gpt2":
        return nn.LayerNorm(width, eps=config.norm_eps)
    return RMSNorm(width, config.norm_eps, config.norm_has_weight)


class Rotary(nn.Module):
    """Rotary positions (Su et al. 2021) in the half-split layout of Llama and Qwen; angles in float32.

    `direction` is -1 for the nanochat families, whose published weights turn the other way.
    """

    frequencies: Tensor

    def __init__(self, head_dim: int, theta: float, direction: float) -> None:
        super().__init__()
        self.direction = direction
        self.head_dim = head_dim
        self.theta = theta
        self.register_buffer("frequencies", self._frequencies(), persistent=False)

    def _frequencies(self) -> Tensor:
        exponent = torch.arange(0, self.head_dim, 2, dtype=torch.float32) / self.head_dim
        return 1.0 / self.theta**exponent

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosine and signed sine, each `[1 or batch, 1, seq, head_dim / 2]`, for `positions [seq]` or `[batch, seq]`."""
        if positions.dim() == 1:
            positions = positions[None]
        angle = positions.float()[:, None, :, None] * self.frequencies.float()
        return angle.cos(), angle.sin() * self.direction


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (i, i + head_dim / 2) of `x [batch, heads, seq, head_dim]`, in float32."""
    if fused.fuses(x, cos, sin):
        return fused.rotate(x, cos, sin)
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


class Attention(nn.Module):
    """Causal grouped-query attention.

    qwen3 normalises queries and keys (with learned scales) before the rotation, nanochat and fast (without) after it,
    llama and gpt2 not at all; gpt2 does not rotate either.
    """

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.config = config
        self.layer = layer
        self.q_proj = linear(config, config.d_model, config.q_dim, "q_proj")
        self.k_proj = linear(config, config.d_model, config.kv_dim, "k_proj")
        self.v_proj = linear(config, config.d_model, config.kv_dim, "v_proj")
        self.o_proj = linear(config, config.q_dim, config.d_model, "o_proj")
        if config.normalises_queries:
            self.q_norm = RMSNorm(config.head_dim, config.norm_eps, config.norm_has_weight)
            self.k_norm = RMSNorm(config.head_dim, config.norm_eps, config.norm_has_weight)
        self.value_gate: nn.Linear | None = None
        if config.has_value_embedding(layer):
            width = min(VALUE_GATE_WIDTH, config.d_model)
            self.value_gate = nn.Linear(width, config.n_kv_heads, bias=False)

    def forward(
        self,
        x: Tensor,
        rotation: tuple[Tensor, Tensor] | None,
        mask: Tensor | None,
        value_embedding: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """`x [batch, seq, d_model]` → the same shape. `mask` (bool, True = may look) `None` means plainly causal."""
        batch, seq, _ = x.shape
        heads = (batch, seq, -1, self.config.head_dim)
        query = self.q_proj(x).view(heads)
        key = self.k_proj(x).view(heads)
        value = self.v_proj(x)
        if self.value_gate is not None and value_embedding is not None:
            gate = 2 * torch.sigmoid(self.value_gate(x[..., : self.value_gate.in_features]))
            value = value.view(heads) + gate[..., None] * value_embedding.view(heads)
        query, key = self._position(query, key, rotation)
        value = value.view(heads).transpose(1, 2)
        is_causal = mask is None
        if cache is not None:
            key, value = cache.extend(self.layer, key, value)
            is_causal = mask is None and seq > 1
        mixed = self._mix(query, key.to(query.dtype), value.to(query.dtype), mask, is_causal)
        out: Tensor = self.o_proj(mixed.transpose(1, 2).reshape(batch, seq, -1))
        return out

    def _position(
        self, query: Tensor, key: Tensor, rotation: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor]:
        """Queries and keys `[batch, seq, heads, head_dim]` → `[batch, heads, seq, head_dim]`, normalised and turned as the family does."""
        if self.config.family == "qwen3" and self.config.normalises_queries:
            query, key = self.q_norm(query), self.k_norm(key)
        query, key = query.transpose(1, 2), key.transpose(1, 2)
        if rotation is None:
            return query, key
        query, key = rotate(query, *rotation), rotate(key, *rotation)
        if self.config.family != "qwen3" and self.config.normalises_queries:
            return self.q_norm(query), self.k_norm(key)
        return query, key

    def _mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
        groups = self.config.n_heads // self.config.n_kv_heads
        if groups > 1:
            key = key.repeat_interleave(groups, dim=1)
            value = value.repeat_interleave(groups, dim=1)
        dropout = self.config.dropout_attention if self.training else 0.0
        # Normalised queries and keys bound the scores, so that rounding them to bfloat16 does little.
        bounded = self.config.normalises_queries and not dropout
        if is_causal and bounded and attend.suits(query, key):
            return attend.causal(query, key, value)
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=is_causal
        )


class SwiGLU(nn.Module):
    """Gated feed-forward network with SiLU (Shazeer 2020), as in Qwen3."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_proj = linear(config, config.d_model, config.d_ff, "gate_proj")
        self.up_proj = linear(config, config.d_model, config.d_ff, "up_proj")
        self.down_proj = linear(config, config.d_ff, config.d_model, "down_proj")

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, seq, d_model]` → the same shape."""
        down: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return down


class TwoLayer(nn.Module):
    """Feed-forward network without a gate: squared ReLU (So et al. 2021; nanochat, fast) or GELU's tanh form (gpt2)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.is_gelu = config.family == "gpt2"
        self.up_proj = linear(config, config.d_model, config.d_ff, "up_proj")
        self.down_proj = linear(config, config.d_ff, config.d_model, "down_proj")

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, seq, d_model]` → the same shape."""
        up = self.up_proj(x)
        down: Tensor = self.down_proj(F.gelu(up, approximate="tanh") if self.is_gelu else F.relu(up).square())
        return down
