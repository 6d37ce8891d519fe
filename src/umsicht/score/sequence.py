"""Log-probability of each row's targets, with gradient: what preference and reward training compare."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .loss import IGNORE


def target_logps(
    hidden: Tensor,
    head_weight: Tensor,
    targets: Tensor,
    *,
    softcap: float | None = None,
    temperature: float = 1.0,
    chunk_rows: int = 512,
) -> Tensor:
    """Log-probability of every target, float32, the shape of `targets`; 0 where the target is `IGNORE`.

    `hidden [..., d_model]`, `targets [...]`. Logits are divided by `temperature`, as a draw divides them. They exist for `chunk_rows` positions at a time; they are computed again for
    the backward pass (Chen et al. 2016, "Training deep nets with sublinear memory cost").
    """
    flat = targets.reshape(-1)
    kept = (flat != IGNORE).nonzero().squeeze(1)
    rows = hidden.reshape(-1, hidden.shape[-1])[kept]
    parts = []
    for start in range(0, kept.shape[0], chunk_rows):
        part = slice(start, start + chunk_rows)
        parts.append(
            checkpoint(
                _logps, rows[part], head_weight, flat[kept[part]], softcap, temperature, use_reentrant=False
            )
        )
    out = torch.zeros(flat.shape, dtype=torch.float32, device=hidden.device)
    if parts:
        out = out.index_put((kept,), torch.cat(parts))
    return out.view(targets.shape)


def _logps(
    rows: Tensor, weight: Tensor, targets: Tensor, softcap: float | None, temperature: float
) -> Tensor:
    logits = (rows @ weight.t()).float()
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    if temperature != 1.0:
        logits = logits / temperature
    return logits.gather(1, targets[:, None]).squeeze(1) - torch.logsumexp(logits, dim=-1)
