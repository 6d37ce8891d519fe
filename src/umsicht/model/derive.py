"""From the one dial, the width, to every size of the model."""

from __future__ import annotations

from typing import Any

from umsicht.findings import UserError
from umsicht.recipe.model import ModelSettings
from umsicht.words import t

from .config import ModelConfig

VOCAB_MULTIPLE = 128


def derive(settings: ModelSettings, n_tokens: int, *, seq_len: int | None = None) -> ModelConfig:
    """All sizes from `settings.d_model`; whatever the recipe names outright is taken as it is.

    Depth is one layer a 64 of width (nanochat's ratio), four at least from width 128 on. Heads are 128 wide where
    that leaves two of them (attention is cheaper with wide heads). The feed-forward width keeps 8·d² weights a
    block in both kinds: 8/3·d for SwiGLU, 4·d for squared ReLU. `n_tokens` is the tokenizer's count; `seq_len`
    replaces the recipe's. Raises `UserError` where sizes do not fit.
    """
    d = settings.d_model
    seq_len = seq_len or settings.seq_len
    n_layers = settings.n_layers or max(4 if d >= 128 else 2, round(d / 64))
    head_dim = settings.head_dim or (d // settings.n_heads if settings.n_heads else _head_dim(d))
    n_heads = settings.n_heads or d // head_dim
    n_kv_heads = settings.n_kv_heads or (n_heads // 2 if n_heads >= 8 and n_heads % 2 == 0 else n_heads)
    tied = settings.tied
    sizes: dict[str, Any] = {
        "family": settings.family,
        "n_tokens": n_tokens,
        "vocab_size": _ceil_to(n_tokens, VOCAB_MULTIPLE),
        "d_model": d,
        "n_layers": n_layers,
        "n_heads": n_heads,
        "n_kv_heads": n_kv_heads,
        "head_dim": head_dim,
        "d_ff": settings.d_ff or _d_ff(d, settings.family),
        "seq_len": seq_len,
        "tied": tied,
        "rope_theta": settings.rope_theta or (10_000.0 if seq_len <= 4096 else 500_000.0),
        "softcap": settings.softcap or (None if settings.family == "qwen3" else 15.0),
        "dropout_embedding": settings.dropout.embedding,
        "dropout_attention": settings.dropout.attention,
        "dropout_residual": settings.dropout.residual,
        "embedding_std": _embedding_std(d, tied),
    }
    try:
        return ModelConfig(**sizes)
    except ValueError as error:
        raise _does_not_fit(str(error)) from error


def _does_not_fit(reason: str) -> UserError:
    return UserError(
        t("model.does_not_fit", reason=reason), where=t("model.section"), fix=t("model.does_not_fit_fix")
    )


def describe(
    config: ModelConfig, settings: ModelSettings
) -> list[tuple[str, int | float | bool | str | None, bool]]:
    """`(name, value, derived)` of every size, in the order people read them; `derived`: not named by the recipe."""
    named = {name for name, value in settings.model_dump().items() if value is not None}
    order = "family d_model n_layers n_heads n_kv_heads head_dim d_ff seq_len n_tokens vocab_size tied rope_theta softcap"
    return [(name, getattr(config, name), name not in named) for name in order.split()]


def _head_dim(d_model: int) -> int:
    for head_dim in (128, 64, 32, 16, 8):
        if d_model % head_dim == 0 and d_model // head_dim >= 2:
            return head_dim
    raise _does_not_fit(t("model.no_head_fits", d_model=d_model))


def _d_ff(d_model: int, family: str) -> int:
    return 4 * d_model if family != "qwen3" else _ceil_to(round(8 * d_model / 3), 64)


def _ceil_to(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _embedding_std(d_model: int, tied: bool) -> float:
    # A tied head sees its own embedding as logit of size std·d_model before training; more than about two of it
    # would lift the first loss above ln(vocab_size).
    return min(0.02, 2.0 / d_model) if tied else 1.0
