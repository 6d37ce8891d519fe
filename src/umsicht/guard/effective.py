"""What a loss trains on, read from the gradient that it leaves.

The gradient of a cross-entropy with respect to the logits is `weight · (softmax − one-hot(target))`. So the *effective* target and weight of
every position can be read from the gradient, whatever the code in between does: shifts, masks, pads, fused kernels, per-row means.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from umsicht.guard.adapt_batch import Example

_TINY = 1e-12


@dataclass(frozen=True)
class Effective:
    """What a loss trains on. `targets` [rows, seq] ids, -1 where nothing is trained; `weights` [rows, seq] float64 ≥ 0; `loss` the scalar.

    `pushed` [rows, seq]: positions whose target the loss makes less likely, as the rejected answer of a preference; `targets` names it there too.
    `pulled` [rows, seq]: positions whose logits the loss moves at all, towards a target or not (z-loss, smoothing). `unsure` [rows, seq]: the
    model is so certain there that a trained position and one left out have the same gradient. None where logits cannot be seen.
    """

    targets: torch.Tensor
    weights: torch.Tensor
    loss: float
    logits: torch.Tensor
    pulled: torch.Tensor | None = None
    unsure: torch.Tensor | None = None
    pushed: torch.Tensor | None = None

    @property
    def active(self) -> torch.Tensor:
        """Positions that carry weight."""
        return self.weights > 0

    @property
    def reference(self) -> float:
        """Mean cross-entropy in float64 over the effective targets, computed apart from the user's code."""
        mask = self.active
        if not bool(mask.any()):
            return float("nan")
        return float(functional.cross_entropy(self.logits[mask].double(), self.targets[mask]))


def nothing(example: Example, loss: torch.Tensor, logits: torch.Tensor) -> Effective:
    """Of a loss that does not move its logits."""
    zeros = torch.zeros(example.ids.shape, dtype=torch.float64)
    return Effective(torch.full(example.ids.shape, -1), zeros, float(loss.detach()), logits.detach())


def from_logits(
    logits: torch.Tensor, gradient: torch.Tensor | None, loss: torch.Tensor, example: Example
) -> Effective:
    """Targets and weights from logits `[rows, seq, vocab]` and the gradient on them."""
    if gradient is None or gradient.dim() != 3:
        return nothing(example, loss, logits)
    clean = torch.nan_to_num(gradient.detach().double())
    pushed = _pushed_away(clean)
    clean = torch.where(pushed[:, None, None], -clean, clean)
    lowest, target = clean.min(dim=-1)
    share = torch.softmax(logits.detach().double(), dim=-1).gather(-1, target.unsqueeze(-1)).squeeze(-1)
    weights = (-lowest / (1 - share).clamp_min(1e-6)).clamp_min(0)
    top = float(weights.max()) if weights.numel() else 0.0
    weights = torch.where(weights > top * 1e-9, weights, torch.zeros_like(weights))
    target = torch.where(weights > _TINY, target, torch.full_like(target, -1))
    pull = clean.abs().sum(dim=-1)
    pulled = pull > float(pull.max()) * 1e-6 if pull.numel() else pull > 0
    certain = torch.softmax(logits.detach().double(), dim=-1).amax(dim=-1) > 1 - 1e-6
    return Effective(
        target.cpu(),
        weights.cpu(),
        float(loss.detach()),
        logits.detach().cpu(),
        pulled.cpu(),
        (certain & ~pulled).cpu(),
        (pushed[:, None] & (weights > 0)).cpu(),
    )


def _pushed_away(gradient: torch.Tensor) -> torch.Tensor:
    """Rows `[rows]` whose targets the loss makes less likely, from the gradient on the logits `[rows, seq, vocab]`.

    A cross-entropy pulls one logit up and all others down, by as much together; a preference turns both round in the rejected row. Only where
    another row is pulled the ordinary way: a loss that turns everything round is a wrong sign, and is judged as such.
    """
    up, down = -gradient.amin(dim=-1), gradient.amax(dim=-1)
    loud = (up + down) > 1e-6 * (up + down).max().clamp_min(_TINY)
    balanced = gradient.sum(-1).abs() <= 1e-3 * gradient.abs().sum(-1)
    turned = loud & balanced & (down > 1.2 * up)
    plain = loud & (up > 1.2 * down)
    counts = loud.sum(1).clamp_min(1)
    rows = (turned.sum(1) > 0.9 * counts) & loud.any(1)
    return rows & bool((plain.sum(1) > 0.9 * counts).any())
