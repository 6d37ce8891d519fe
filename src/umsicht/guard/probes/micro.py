"""T10 on anybody's step: what it does with micro-batches, with padding, with the gradient of the step before."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from umsicht.findings import Finding
from umsicht.guard.adapt_batch import Example
from umsicht.guard.gradients import Gradients, gradients_of, relative_gap, scale_of, seen_by_steps, set_aside
from umsicht.guard.probes.habits import loop_habits, schedule_kept
from umsicht.guard.probes.mask import expected_active
from umsicht.guard.probes.membership import get_optimizer
from umsicht.guard.probes.norm import unevenly_masked
from umsicht.guard.probes.silent import silent
from umsicht.guard.subject import Cannot, Subject, numbers, to_device

TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-9}
ROUNDED = 3e-2
"""For half precision, of the weights or of a step under autocast."""


def batch_algebra(subject: Subject) -> Iterator[Finding]:
    """One batch of B, B micro-batches of one, and uneven ones give the gradient of the mean over all active targets; padding changes nothing."""
    subject.need_cross_entropy()
    module = subject.need_module()
    yield from padding_counts(subject)
    if subject.train_step is None:
        raise Cannot("no train_step was given: how your loop puts micro-batches together cannot be seen")
    optimizer = get_optimizer(subject)
    known = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if any(p.requires_grad and id(p) not in known for p in module.parameters()):
        raise Cannot(
            "the optimizer does not hold every weight: whatever it never clears looks like a wrong sum"
        )
    example = unevenly_masked(subject.small) or subject.small
    example = to_device(example, subject.need_model().device)
    pieces = [example.take(slice(row, row + 1)) for row in range(example.ids.shape[0])]
    with schedule_kept(subject.schedule):
        with silent(module):
            found = list(_step_gradients(subject, optimizer, example, pieces))
        if not found:
            found = list(loop_habits(subject, optimizer, pieces))
    yield from found


def reference_gradient(subject: Subject, pieces: list[Example]) -> Gradients:
    """Gradient of the mean over all active targets of all pieces, from the loss of each piece and its own count."""
    module = subject.need_module()
    loss_view = subject.need_loss()
    counts = [int(expected_active(piece, subject.label_offset).sum()) for piece in pieces]
    total = max(1, sum(counts))
    with set_aside(module):
        for piece, count in zip(pieces, counts, strict=True):
            if count:
                (loss_view.of(piece) * (count / total)).backward()  # type: ignore[no-untyped-call]
        return gradients_of(module)


def _step_gradients(
    subject: Subject, optimizer: torch.optim.Optimizer, whole: Example, pieces: list[Example]
) -> Iterator[Finding]:
    assert subject.train_step is not None
    module = subject.need_module()
    exact = TOLERANCE.get(subject.need_model().dtype, ROUNDED)
    clip = subject.declared.clip
    for label, parts in (
        ("one batch", [whole]),
        ("micro-batches of one", pieces),
        ("uneven micro-batches", _uneven(whole)),
    ):
        expected: list[Gradients] = []
        allowed: list[Gradients | None] = []
        with (
            subject.borrowed(optimizer),
            seen_by_steps(optimizer, lambda: gradients_of(module)) as seen,
            _autocasts(module) as rounded,
        ):
            for _ in range(2):
                with subject.need_model().mode(training=True):
                    expected.append(reference_gradient(subject, parts))
                    allowed.append(_with_even_auxiliary(subject, parts))
                    rounded.clear()
                    subject.take_step(optimizer, [part.raw for part in parts])
        limit = ROUNDED if any(rounded) else exact
        if not seen:
            yield Finding(
                "OPT-WIRING/no-step",
                "stop",
                "batch-algebra",
                location="training step",
                numbers=numbers(calls=2),
            )
            return
        if len(seen) > 2:
            yield Finding(
                "LOSS-NORM/step-per-micro-batch",
                "stop",
                "batch-algebra",
                location="training step",
                numbers=numbers(steps=len(seen), calls=2, micro_batches=len(parts)),
            )
            return
        for index, (got, raw, other) in enumerate(zip(seen, expected, allowed, strict=False)):
            want = _clipped(raw, clip)
            gap = relative_gap(got, want)
            fits = gap <= limit or (other is not None and relative_gap(got, _clipped(other, clip)) <= limit)
            if not fits:
                yield _badly_clipped(subject, got, raw, clip, limit, parts, index) or _named(
                    label, index, gap, *scale_of(got, want), len(parts)
                )
                return


@contextmanager
def _autocasts(module: nn.Module) -> Iterator[list[bool]]:
    """Whether calls of the model inside the block ran under autocast, one by one."""
    seen: list[bool] = []
    device = next(module.parameters()).device.type
    handle = module.register_forward_pre_hook(lambda *_: seen.append(torch.is_autocast_enabled(device)))
    try:
        yield seen
    finally:
        handle.remove()


def _with_even_auxiliary(subject: Subject, parts: list[Example]) -> Gradients | None:
    """The reference gradient where a term beside the cross-entropy (the balance of a router) is averaged over micro-batches, not over targets.

    None where there is one part, no such term, or no way to tell it apart.
    """
    module, loss_view = subject.need_module(), subject.need_loss()
    if len(parts) < 2 or loss_view.form == "logits":
        return None
    counts = [int(expected_active(part, subject.label_offset).sum()) for part in parts]
    total = max(1, sum(counts))
    with set_aside(module):
        for part, count in zip(parts, counts, strict=True):
            try:
                effective = subject.effective(part)
            except LookupError:
                return None
            with loss_view.tapped(*part.ids.shape) as tap:
                loss = loss_view.of(part)
            logits, mask = tap.logits, effective.active
            if logits is None or not logits.requires_grad or not bool(mask.any()):
                return None
            main = functional.cross_entropy(
                logits[mask.to(logits.device)].float(), effective.targets[mask].to(logits.device)
            )
            beside = loss - main
            if abs(float(beside.detach())) < 1e-5 * abs(float(loss.detach())):
                return None
            (main * (count / total) + beside / len(parts)).backward()  # type: ignore[no-untyped-call]
        return gradients_of(module)


def _badly_clipped(
    subject: Subject,
    got: Gradients,
    raw: Gradients,
    clip: float | None,
    limit: float,
    parts: list[Example],
    index: int,
) -> Finding | None:
    """The right gradient, but not clipped; or clipped after every micro-batch. Only where a clip is declared."""
    if clip is None or norm_of(raw) <= clip * (1 + limit):
        return None
    is_whole = relative_gap(got, raw) <= limit
    if not is_whole and (index or relative_gap(got, _clipped_each(subject, parts, clip)) > limit):
        return None
    return Finding(
        "OPT-WIRING/clip-missing" if is_whole else "OPT-WIRING/clip-per-micro-batch",
        "stop",
        "batch-algebra",
        location="training step",
        numbers=numbers(norm=norm_of(got), raw=norm_of(raw), clip=clip, micro_batches=len(parts)),
    )


def _clipped_each(subject: Subject, parts: list[Example], clip: float) -> Gradients:
    """What is left where the sum so far is clipped after every micro-batch."""
    module, loss_view = subject.need_module(), subject.need_loss()
    counts = [int(expected_active(part, subject.label_offset).sum()) for part in parts]
    with set_aside(module), silent(module), subject.need_model().mode(training=True):
        for part, count in zip(parts, counts, strict=True):
            if count:
                (loss_view.of(part) * (count / max(1, sum(counts)))).backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
        return gradients_of(module)


def norm_of(gradient: Gradients) -> float:
    """Norm of all tensors together."""
    return math.sqrt(sum(float(value.double().square().sum()) for value in gradient.values()))


def _clipped(gradient: Gradients, clip: float | None) -> Gradients:
    if clip is None:
        return gradient
    norm = norm_of(gradient)
    return {name: value * (clip / norm) for name, value in gradient.items()} if norm > clip else gradient


def _named(label: str, index: int, gap: float, factor: float, cosine: float, parts: int) -> Finding:
    """Nothing at all was cleared too late; a factor alone is a wrong divisor; another direction is wrong weights; only the second step wrong is a gradient left over."""
    counts = numbers(gap=gap, factor=factor, cosine=cosine, micro_batches=parts, case=label, call=index + 1)
    if factor == 0.0 and cosine == 0.0:
        name = "OPT-WIRING/gradient-thrown-away"
    elif index == 1:
        name = "OPT-WIRING/gradient-left-over"
    elif cosine > 0.9999:
        name = "LOSS-NORM/divisor"
    else:
        name = "LOSS-NORM/micro-batches"
    return Finding(name, "stop", "batch-algebra", location="training step", numbers=counts)


def _uneven(whole: Example) -> list[Example]:
    rows = whole.ids.shape[0]
    if rows < 3:
        return [whole.take(slice(row, row + 1)) for row in range(rows)]
    return [whole.take(slice(0, rows - 1)), whole.take(slice(rows - 1, rows))]


def padding_counts(subject: Subject, tolerance: float = 1e-3) -> Iterator[Finding]:
    """More padding at the right end must change neither loss nor gradient, where the batch has a way to say what is padding."""
    example = subject.small
    if example.labels is None and example.weights is None:
        return
    if example.attention_mask is None or example.attention_mask.dim() != 2:
        return
    loss_view = subject.need_loss()
    padded = pad_right(example, 5)
    module = subject.need_module()
    with torch.no_grad(), silent(module), subject.need_model().mode(training=True):
        try:
            plain, more = float(loss_view.of(example)), float(loss_view.of(padded))
        except (RuntimeError, IndexError, ValueError):
            return
    if math.isfinite(plain) and abs(more - plain) > tolerance * abs(plain) + 1e-5:
        yield Finding(
            "TARGET-MASK/padding-counts",
            "stop",
            "batch-algebra",
            location="loss",
            numbers=numbers(plain=plain, padded=more, columns=5),
        )


def pad_right(example: Example, columns: int) -> Example:
    """The batch with `columns` more positions of padding."""
    from umsicht.guard.adapt_batch import _map, read_batch

    fills = {"labels": -100, "attention_mask": 0, "document_ids": -1}
    known = {
        id(value): fills.get(name, 0)
        for name, value in vars(example).items()
        if isinstance(value, torch.Tensor)
    }
    shape = example.ids.shape

    def longer(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.shape != shape:
            return value
        fill = known.get(id(value), 0)
        if value.data_ptr() == (example.labels.data_ptr() if example.labels is not None else 0):
            fill = -100
        tail = torch.full((shape[0], columns), fill, dtype=value.dtype, device=value.device)
        if fill == 0 and value.data_ptr() == example.ids.data_ptr():
            tail = value[:, -1:].expand(-1, columns)
        return torch.cat([value, tail], dim=1)

    return read_batch(_map(example.raw, longer))
