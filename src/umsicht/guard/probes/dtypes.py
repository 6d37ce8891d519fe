"""T17: number formats where they matter, rotary tables against float64, the scale and masks of attention as really called."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from umsicht.findings import Finding
from umsicht.guard.adapt_batch import Example
from umsicht.guard.probes.attention import attention, listen, sharpness
from umsicht.guard.probes.initial import unusable
from umsicht.guard.probes.rotary import HALF, rotary
from umsicht.guard.subject import Subject, numbers, to_device

STAGE = "dtypes"


def dtypes(subject: Subject) -> Iterator[Finding]:
    """Parameters, rotary tables, attention calls, and the loss: each in the format and with the values it should have."""
    module = subject.need_module()
    # First of all: what is not a number would be blamed on whatever is computed from it next.
    broken = list(unusable(module))
    yield from broken
    if broken:
        return
    yield from _parameters(subject, module)
    tap = listen(subject)
    yield from rotary(module, tap)
    found = list(attention(subject, tap))
    yield from found
    if not found and subject.model is not None and subject.examples and subject.looks_fresh:
        yield from sharpness(listen(subject, awake=False))
    yield from _loss(subject)


def _parameters(subject: Subject, module: nn.Module) -> Iterator[Finding]:
    wanted = subject.declared.parameter_dtype
    counts: dict[str, int] = {}
    for parameter in module.parameters():
        name = str(parameter.dtype).removeprefix("torch.")
        counts[name] = counts.get(name, 0) + 1
    if wanted:
        strange = {name: count for name, count in counts.items() if name != wanted}
        if strange:
            yield Finding(
                "NUMERIC/parameter-dtype",
                "stop",
                STAGE,
                location="model",
                numbers=numbers(
                    declared=wanted, found=", ".join(f"{name} × {count}" for name, count in counts.items())
                ),
            )
    elif len(counts) > 1:
        common = max(counts, key=lambda key: counts[key])
        odd = [name for name, p in module.named_parameters() if str(p.dtype) != f"torch.{common}"]
        if all(dict(module.named_parameters())[name].dtype in HALF for name in odd) or len(odd) <= 2:
            yield Finding(
                "NUMERIC/mixed-parameters",
                "warn",
                STAGE,
                location=f"model: {odd[0]}",
                numbers=numbers(common=common, odd=len(odd), names=", ".join(odd[:4])),
            )


def _loss(subject: Subject) -> Iterator[Finding]:
    """The loss of a batch in half precision must still be a float32 number, and be computed as one."""
    if subject.loss is None:
        return
    found = [_half_loss(subject, example) for example in subject.examples[:3]]
    if found and all(found):
        yield Finding("NUMERIC/loss-half", "warn", STAGE, location="loss", numbers=numbers(dtype=found[0]))


def _half_loss(subject: Subject, example: Example) -> str:
    """The format of half precision in which this loss is, or was before somebody widened it; empty where it is none."""
    with torch.no_grad():
        loss = subject.need_loss().of(to_device(example.take(slice(0, 4)), subject.need_model().device))
    for dtype in HALF:
        if loss.dtype == dtype or (float(loss) != 0.0 and float(loss.to(dtype)) == float(loss)):
            return str(dtype).removeprefix("torch.")
    return ""


def loss_is_coarse(subject: Subject) -> bool:
    """True where every loss is a number of half precision: too coarse a staircase for differences."""
    return bool(subject.examples) and all(_half_loss(subject, example) for example in subject.examples[:3])
