"""T11: a gradient is the slope of the loss. Each tensor is moved a little both ways, and the loss must change by what its gradient says."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import nn

from umsicht.findings import Finding
from umsicht.guard.probes.dtypes import loss_is_coarse
from umsicht.guard.probes.prefix import crop
from umsicht.guard.subject import Cannot, Subject, numbers, to_device

STAGE = "one-step"
ROWS, POSITIONS, TENSORS = 2, 48, 32
FURTHEST = 0.03
"""The longest move, relative to the tensor: further away the loss is no straight line."""
AGREE, LIMIT = 0.02, 0.06
"""Two lengths agree to 2 %; further from 1 than 6 % is wrong. Healthy small models, measured: within 0.3 %."""
NOISE = {torch.float32: 2e-7, torch.float64: 1e-15}
LOUD = 400
"""A change of the loss is read only where it is so many times the rounding of one: sums of many products round more than once."""


def slope(subject: Subject) -> Iterator[Finding]:
    """Hooks that scale, detached parts, hand-written backward passes, other dropout in a recomputation: all of them leave the loss right and its gradient wrong."""
    module, loss, view = subject.need_module(), subject.need_loss(), subject.need_model()
    noise = NOISE.get(view.dtype)
    if noise is None:
        raise Cannot("half precision is too coarse for differences of losses")
    if subject.examples and subject.advantages is not None:
        raise Cannot("the value of a policy gradient's loss does not follow the weights; its gradient does")
    if loss_is_coarse(subject):
        raise Cannot("the loss is rounded to half precision: its differences say nothing")
    rows = min(ROWS, subject.small.ids.shape[0])
    example = crop(subject.small.take(slice(0, rows)), min(POSITIONS, subject.small.ids.shape[1]))
    example = to_device(example, view.device)
    with subject.awake(), view.mode(training=True):
        trainable = [(n, p) for n, p in module.named_parameters() if p.requires_grad and p.numel()]
        for _, parameter in trainable:
            parameter.grad = None
        # Dropout stays on, from one seed: what is computed again in the backward pass must draw what the forward pass drew.
        torch.manual_seed(subject.seed)
        value = loss.of(example)
        if not bool(torch.isfinite(value)):
            raise Cannot("the loss of this batch is not finite")
        value.backward()  # type: ignore[no-untyped-call]  # untyped in torch
        floor = LOUD * noise * max(1.0, abs(float(value.detach())))

        def measured() -> float:
            torch.manual_seed(subject.seed)
            with torch.no_grad():
                return float(loss.of(example).double())

        tried, worst = 0, ("", 1.0)
        for name, parameter in _spread(trainable):
            ratio = _ratio(parameter, measured, floor, subject.seed)
            if ratio is None:
                continue
            tried += 1
            if abs(ratio - 1) > abs(worst[1] - 1):
                worst = (name, ratio)
    if not tried:
        raise Cannot("no gradient is large enough to be seen in the loss")
    if abs(worst[1] - 1) > LIMIT:
        yield Finding(
            "NUMERIC/gradient-wrong",
            "stop",
            STAGE,
            location=f"gradient: {worst[0]}",
            numbers=numbers(name=worst[0], ratio=worst[1], tensors=tried),
        )


def _spread(trainable: list[tuple[str, nn.Parameter]]) -> list[tuple[str, nn.Parameter]]:
    """All tensors, or as many as are tried, evenly over the model."""
    if len(trainable) <= TENSORS:
        return trainable
    return [trainable[round(index * (len(trainable) - 1) / (TENSORS - 1))] for index in range(TENSORS)]


def _ratio(parameter: nn.Parameter, measured, floor: float, seed: int) -> float | None:  # type: ignore[no-untyped-def]  # a function of nothing
    """(change of the loss measured) ÷ (change that the gradient says), along gradient and chance; None where it drowns in rounding."""
    if parameter.grad is None:
        return None
    gradient = parameter.grad.detach().double()
    size = float(gradient.norm())
    if not math.isfinite(size) or size == 0.0:
        return None
    generator = torch.Generator().manual_seed(seed + 31)
    chance = torch.randn(gradient.shape, generator=generator, dtype=torch.float64).to(gradient.device)
    direction = gradient / size + 0.5 * chance / chance.norm()
    direction = direction / direction.norm()
    said = float((gradient * direction).sum())
    kept = parameter.detach().clone()
    reach = max(float(kept.double().norm()), 1e-3 * math.sqrt(kept.numel()))
    # As short as the change can still be told from rounding.
    length = floor / max(2 * abs(said), 1e-300)
    if 2 * length > FURTHEST * reach:
        return None
    found = []
    try:
        for times in (1, 2):
            change = 0.0
            for sign in (1.0, -1.0):
                with torch.no_grad():
                    parameter.copy_(kept + (sign * times * length * direction).to(kept))
                change += sign * measured()
            found.append(change / (2 * times * length * said))
    finally:
        with torch.no_grad():
            parameter.copy_(kept)
    return found[0] if abs(found[0] - found[1]) < AGREE * max(1.0, abs(found[0])) else None
