"""T12: a model that cannot learn two rows by heart will not learn a corpus. Kept apart from validation, never a result."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from umsicht.findings import Finding
from umsicht.guard.probes.mask import expected_active
from umsicht.guard.probes.prefix import crop
from umsicht.guard.subject import Cannot, Subject, numbers

STAGE = "overfit"
STEPS = 80
RATES = (1e-2, 3e-3, 1e-3)
REACHED = 0.25
STALLED = 0.6


def overfit(subject: Subject) -> Iterator[Finding]:
    """A plain AdamW on the trainable weights, dropout off, one small batch, until the loss is a quarter of what it was."""
    module = subject.need_module()
    loss_view = subject.need_cross_entropy()
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not trainable:
        raise Cannot("no parameter requires a gradient")
    example = _small_batch(subject)
    best, first, steps = math.inf, math.nan, 0
    for rate in RATES:
        with subject.borrowed(), subject.need_model().mode(training=False):
            history = _learn(loss_view.of, example, trainable, rate)
        first, lowest, steps = history[0], min(history), steps + len(history)
        best = min(best, lowest if math.isfinite(lowest) else math.inf)
        if best < REACHED * first:
            return
    if not math.isfinite(first):
        yield Finding(
            "NUMERIC/first-loss-not-finite", "stop", STAGE, location="loss", numbers=numbers(loss=first)
        )
        return
    if first < 0.05:
        yield Finding(
            "EVAL-VALIDITY/nothing-to-learn",
            "warn",
            STAGE,
            location="loss",
            numbers=numbers(first=first, best=best),
        )
        return
    small_part = sum(p.numel() for p in trainable) < 0.5 * sum(p.numel() for p in module.parameters())
    # A small part on a frozen rest cannot learn everything by heart; learning nothing at all is still a fault.
    if small_part and best <= 0.999 * first:
        return
    stalled = best > STALLED * first
    yield Finding(
        "OPT-WIRING/cannot-overfit",
        "stop" if stalled else "warn",
        STAGE,
        location="model",
        numbers=numbers(first=first, best=best, steps=steps, share=best / first),
    )


def _small_batch(subject: Subject):  # type: ignore[no-untyped-def]
    """Two rows with targets, at most 64 tokens each."""
    example = subject.small
    mask = expected_active(example, subject.label_offset)
    order = torch.argsort(mask.sum(dim=1), descending=True)[:2].cpu()
    chosen = example.take(order)
    if subject.need_loss().form in ("logits", "internal") or subject.extra.get("crop", True):
        return crop(chosen, min(64, chosen.ids.shape[1]))
    return chosen


def _learn(loss_of, example, trainable, rate: float) -> list[float]:  # type: ignore[no-untyped-def]
    adam = _Adam(trainable, rate)
    history: list[float] = []
    with torch.enable_grad():
        for _ in range(STEPS):
            for parameter in trainable:
                parameter.grad = None
            loss = loss_of(example)
            history.append(float(loss.detach()))
            if not math.isfinite(history[-1]) or not loss.requires_grad:
                break
            if history[-1] < REACHED * history[0] * 0.8:
                break
            loss.backward()
            adam.step()
    return history


class _Adam:
    """Adam in a few lines: torch.optim's first use imports its compiler, four seconds in a check that takes ten."""

    def __init__(self, parameters: list[torch.nn.Parameter], rate: float) -> None:
        self.parameters, self.rate, self.steps = parameters, rate, 0
        self.first = [torch.zeros_like(p, dtype=torch.float32) for p in parameters]
        self.second = [torch.zeros_like(p, dtype=torch.float32) for p in parameters]

    @torch.no_grad()
    def step(self) -> None:
        """One update with the gradient cut to norm 1."""
        self.steps += 1
        gradients = [
            torch.zeros_like(m) if p.grad is None else p.grad.float()
            for p, m in zip(self.parameters, self.first, strict=True)
        ]
        norm = float(torch.stack([g.square().sum() for g in gradients]).sum().sqrt())
        for parameter, gradient, first, second in zip(
            self.parameters, gradients, self.first, self.second, strict=True
        ):
            gradient = gradient * min(1.0, 1.0 / max(norm, 1e-12))
            first.lerp_(gradient, 0.1)
            second.lerp_(gradient.square(), 0.05)
            root = (second / (1 - 0.95**self.steps)).sqrt() + 1e-8
            parameter.sub_((self.rate * first / (1 - 0.9**self.steps) / root).to(parameter.dtype))
