"""The loss: a sum of cross-entropy over active targets, computed in pieces so that no full logits tensor exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

IGNORE = -100


@dataclass(frozen=True)
class LossSum:
    """`objective`: what is differentiated (float32 scalar); `nats`: its cross-entropy part alone, without gradient;
    `count`: number of active targets."""

    objective: Tensor
    nats: Tensor
    count: int


def cross_entropy_sum(
    hidden: Tensor,
    head_weight: Tensor,
    targets: Tensor,
    *,
    softcap: float | None = None,
    chunk_rows: int = 512,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> tuple[Tensor, int]:
    """Sum of the cross-entropy over active targets, and how many those are; see `loss_sum`."""
    loss = loss_sum(
        hidden,
        head_weight,
        targets,
        softcap=softcap,
        chunk_rows=chunk_rows,
        label_smoothing=label_smoothing,
        z_loss=z_loss,
    )
    return loss.objective, loss.count


def loss_sum(
    hidden: Tensor,
    head_weight: Tensor,
    targets: Tensor,
    *,
    softcap: float | None = None,
    chunk_rows: int = 512,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> LossSum:
    """Cross-entropy of `softmax(hidden · head_weightᵀ)` against `targets`, summed in float32 over active targets.

    `hidden [..., d_model]`, `head_weight [vocab, d_model]`, `targets [...]` int64 with `IGNORE` where nothing is to be
    predicted. Only `chunk_rows` rows of logits exist at a time; where a gradient will be needed it is computed in the
    same pass (the loss is a scalar, so the upstream factor can be applied later), as Liger Kernel does (Hsu et al.
    2024). Under autocast the products run in its type, the softmax in float32. No active target gives 0 with zero
    gradients, never 0/0. `label_smoothing` as in Szegedy et al. 2016; `z_loss` adds z_loss · logsumexp² (PaLM, 2022).
    """
    rows = hidden.reshape(-1, hidden.shape[-1])
    flat = targets.reshape(-1)
    active = flat != IGNORE
    if int(active.sum()) < flat.numel():
        kept = active.nonzero().squeeze(1)
        rows, flat = rows[kept], flat[kept]
    return active_loss_sum(
        rows,
        head_weight,
        flat,
        softcap=softcap,
        chunk_rows=chunk_rows,
        label_smoothing=label_smoothing,
        z_loss=z_loss,
    )


def active_loss_sum(
    rows: Tensor,
    head_weight: Tensor,
    targets: Tensor,
    *,
    softcap: float | None = None,
    chunk_rows: int = 512,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> LossSum:
    """`loss_sum` of `rows [n, d_model]` whose `targets [n]` are all active: no value is read, so it also runs on tensors without storage."""
    options = _Options(softcap, chunk_rows, label_smoothing, z_loss, _product_dtype(rows))
    objective, nats = _LinearCrossEntropy.apply(rows, head_weight, targets, options)  # type: ignore[no-untyped-call]  # torch's apply
    return LossSum(objective, nats, int(targets.shape[0]))


@torch.no_grad()
def token_nats(
    hidden: Tensor,
    head_weight: Tensor,
    targets: Tensor,
    *,
    softcap: float | None = None,
    chunk_rows: int = 512,
) -> Tensor:
    """Cross-entropy of each target in nats, float32, the shape of `targets`; 0 where the target is `IGNORE`."""
    rows = hidden.reshape(-1, hidden.shape[-1])
    flat = targets.reshape(-1)
    out = torch.zeros(flat.shape, dtype=torch.float32, device=hidden.device)
    kept = (flat != IGNORE).nonzero().squeeze(1)
    for start in range(0, kept.shape[0], chunk_rows):
        part = kept[start : start + chunk_rows]
        logits = F.linear(rows[part], head_weight).float()
        if softcap is not None:
            logits = softcap * torch.tanh(logits / softcap)
        out[part] = F.cross_entropy(logits, flat[part], reduction="none")
    return out.view(targets.shape)


@dataclass(frozen=True)
class _Options:
    softcap: float | None
    chunk_rows: int
    label_smoothing: float
    z_loss: float
    dtype: torch.dtype


def _product_dtype(rows: Tensor) -> torch.dtype:
    kind = rows.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else rows.dtype


class _LinearCrossEntropy(torch.autograd.Function):
    """Value and gradient in one pass over chunks; the backward pass only scales."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, targets: Tensor, options: _Options
    ) -> tuple[Tensor, Tensor]:
        needs_rows, needs_weight = ctx.needs_input_grad[:2]
        objective = torch.zeros((), dtype=torch.float32, device=rows.device)
        nats = torch.zeros_like(objective)
        grad_rows = torch.empty_like(rows) if needs_rows else None
        grad_weight = (
            torch.zeros(weight.shape, dtype=torch.float32, device=weight.device) if needs_weight else None
        )
        with torch.autocast(rows.device.type, enabled=False):
            cast_weight = weight.to(options.dtype)
            for start in range(0, rows.shape[0], options.chunk_rows):
                stop = min(start + options.chunk_rows, rows.shape[0])
                chunk = rows[start:stop].to(options.dtype)
                logits = _logits(chunk, cast_weight, options.softcap)
                part, part_nats, log_p, lse = _values(logits, targets[start:stop], options)
                objective += part
                nats += part_nats
                if grad_rows is None and grad_weight is None:
                    continue
                slope = _slope_(logits, log_p, lse, targets[start:stop], options).to(options.dtype)
                if grad_rows is not None:
                    grad_rows[start:stop] = slope @ cast_weight
                if grad_weight is not None:
                    _add_product_(grad_weight, slope, chunk)
        ctx.save_for_backward(grad_rows, None if grad_weight is None else grad_weight.to(weight.dtype))
        ctx.mark_non_differentiable(nats)
        return objective, nats

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor, _: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        grad_rows, grad_weight = ctx.saved_tensors
        return (
            None if grad_rows is None else grad_rows * upstream.to(grad_rows.dtype),
            None if grad_weight is None else grad_weight * upstream.to(grad_weight.dtype),
            None,
            None,
        )


def _logits(chunk: Tensor, weight: Tensor, softcap: float | None) -> Tensor:
    logits = F.linear(chunk, weight).float()
    if softcap is not None:
        logits.div_(softcap).tanh_().mul_(softcap)
    return logits


def _values(logits: Tensor, targets: Tensor, options: _Options) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Objective, nats, log-probabilities and log-partition. One fused pass over the logits: on a processor this is memory-bound."""
    log_p = torch.log_softmax(logits, dim=-1)
    lse = logits[:, 0] - log_p[:, 0]
    nats = -log_p.gather(1, targets[:, None]).sum()
    objective = nats
    if options.label_smoothing:
        smooth = -log_p.mean(dim=-1).sum()
        objective = (1 - options.label_smoothing) * nats + options.label_smoothing * smooth
    if options.z_loss:
        objective = objective + options.z_loss * lse.square().sum()
    return objective, nats, log_p, lse


def _slope_(logits: Tensor, log_p: Tensor, lse: Tensor, targets: Tensor, options: _Options) -> Tensor:
    """d objective / d (uncapped logits), written over `log_p`."""
    bend = None if options.softcap is None else 1 - (logits / options.softcap).square()
    slope = log_p.exp_()
    if options.z_loss:
        slope.mul_((1 + 2 * options.z_loss * lse)[:, None])
    if options.label_smoothing:
        slope.sub_(options.label_smoothing / slope.shape[1])
    correct = torch.full((targets.shape[0], 1), options.label_smoothing - 1, device=slope.device)
    slope.scatter_add_(1, targets[:, None], correct)
    return slope if bend is None else slope.mul_(bend)


def _add_product_(total: Tensor, slope: Tensor, chunk: Tensor) -> None:
    if slope.dtype == torch.float32:
        total.addmm_(slope.t(), chunk)
    else:
        total += slope.t() @ chunk
