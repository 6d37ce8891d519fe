"""T10 and T11 on anybody's optimizer and step: what is in it, what decays, what moves, what one step does with micro-batches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from umsicht.findings import Finding
from umsicht.guard.adapt_batch import Example
from umsicht.guard.probe import Cannot
from umsicht.guard.probes.mask import expected_active
from umsicht.guard.probes.norm import silent, unevenly_masked
from umsicht.guard.subject import Subject, numbers, to_device

TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-9, torch.bfloat16: 3e-2, torch.float16: 3e-2}


def get_optimizer(subject: Subject) -> torch.optim.Optimizer:
    """The optimizer given, or made from the factory given."""
    given = subject.optimizer
    if given is None:
        raise Cannot("no optimizer was given")
    if isinstance(given, torch.optim.Optimizer):
        return given
    inner = getattr(given, "optimizer", None)
    if isinstance(inner, torch.optim.Optimizer):
        return inner
    if callable(given):
        made = subject.extra.get("made_optimizer") or given(subject.need_module().parameters())
        subject.extra["made_optimizer"] = made
        if isinstance(made, torch.optim.Optimizer):
            return made
    raise Cannot(f"optimizer= is a {type(given).__name__}, not a torch optimizer")


def one_step(subject: Subject) -> Iterator[Finding]:
    """T11: membership, groups, rates, decay, then one real step: what moved, by how much, in which number format."""
    module = subject.need_module()
    optimizer = get_optimizer(subject)
    found = [
        *_membership(subject, module, optimizer),
        *_groups(subject, module, optimizer),
        *_rates(subject, optimizer),
    ]
    found += _decay(subject, module, optimizer)
    yield from found
    if any(finding.grade == "stop" for finding in found):
        return
    if subject.loss is not None and subject.examples:
        yield from _moves(subject, module, optimizer)


def frozen(subject: Subject, name: str) -> bool:
    """True for a parameter that is declared frozen."""
    return any(name == prefix or name.startswith(prefix) for prefix in subject.declared.frozen)


def _membership(subject: Subject, module: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[Finding]:
    inside: dict[int, int] = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            inside[id(parameter)] = inside.get(id(parameter), 0) + 1
    own = {id(parameter): name for name, parameter in module.named_parameters()}
    strangers = sum(1 for key in inside if key not in own)
    missing = [
        name
        for name, p in module.named_parameters()
        if p.requires_grad and id(p) not in inside and not frozen(subject, name)
    ]
    total = len(own)
    if strangers and (missing or strangers == len(inside)):
        yield Finding(
            "OPT-WIRING/other-model",
            "stop",
            "one-step",
            location="optimizer",
            numbers=numbers(strangers=strangers, parameters=total, missing=len(missing)),
        )
        return
    if missing:
        yield Finding(
            "OPT-WIRING/missing",
            "stop",
            "one-step",
            location=f"optimizer: {missing[0]}",
            numbers=numbers(missing=len(missing), parameters=total, names=", ".join(missing[:5])),
        )
    if strangers:
        yield Finding(
            "OPT-WIRING/strangers",
            "warn",
            "one-step",
            location="optimizer",
            numbers=numbers(strangers=strangers, parameters=total),
        )
    doubled = [own[key] for key, count in inside.items() if count > 1 and key in own]
    if doubled:
        yield Finding(
            "OPT-WIRING/doubled",
            "stop",
            "one-step",
            location=f"optimizer: {doubled[0]}",
            numbers=numbers(doubled=len(doubled)),
        )
    still = [
        name for name, p in module.named_parameters() if not p.requires_grad and not frozen(subject, name)
    ]
    if still and len(still) < 0.5 * total:
        yield Finding(
            "OPT-WIRING/frozen",
            "stop",
            "one-step",
            location=f"optimizer: {still[0]}",
            numbers=numbers(frozen=len(still), parameters=total, names=", ".join(still[:5])),
        )
    elif still and not subject.declared.frozen:
        yield Finding(
            "OPT-WIRING/mostly-frozen",
            "note",
            "one-step",
            location="optimizer",
            numbers=numbers(frozen=len(still), parameters=total, names=", ".join(still[:3])),
        )


def _groups(subject: Subject, module: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[Finding]:
    empty = [index for index, group in enumerate(optimizer.param_groups) if not group["params"]]
    if empty:
        yield Finding(
            "OPT-WIRING/empty-group",
            "stop",
            "one-step",
            location=f"optimizer: group {empty[0]}",
            numbers=numbers(groups=len(optimizer.param_groups)),
        )


def _rates(subject: Subject, optimizer: torch.optim.Optimizer) -> Iterator[Finding]:
    for index, group in enumerate(optimizer.param_groups):
        rate = float(group.get("lr", 0.0))
        where = f"optimizer: group {index}"
        if not math.isfinite(rate) or rate < 0 or group.get("maximize"):
            yield Finding(
                "OPT-WIRING/uphill",
                "stop",
                "one-step",
                location=where,
                numbers=numbers(rate=rate, maximize=bool(group.get("maximize"))),
            )
        elif rate == 0.0 and subject.schedule is None:
            yield Finding(
                "OPT-WIRING/rate-zero", "warn", "one-step", location=where, numbers=numbers(rate=rate)
            )
        betas = group.get("betas")
        if (
            betas is not None
            and len(betas) == 2
            and (betas[1] < betas[0] - 0.05 or not 0 <= betas[0] < 1 or not 0 <= betas[1] < 1)
        ):
            yield Finding(
                "OPT-WIRING/betas",
                "warn",
                "one-step",
                location=where,
                numbers=numbers(beta1=float(betas[0]), beta2=float(betas[1])),
            )
        if float(group.get("eps", 0.0) or 0.0) > 1e-4 and "betas" in group:
            yield Finding(
                "OPT-WIRING/epsilon",
                "warn",
                "one-step",
                location=where,
                numbers=numbers(epsilon=float(group["eps"])),
            )


def _decay(subject: Subject, module: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[Finding]:
    """A step with zero gradients moves weights by decay alone: which ones, measured and not read from settings."""
    trainable = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    inside = {id(p) for group in optimizer.param_groups for p in group["params"]}
    with subject.borrowed(optimizer):
        before = {name: p.detach().clone() for name, p in trainable}
        optimizer.state.clear()
        for _, parameter in trainable:
            parameter.grad = torch.zeros_like(parameter)
        _plain_step(optimizer)
        shrunk = {
            name for name, p in trainable if id(p) in inside and not torch.equal(before[name], p.detach())
        }
    vectors = [
        name
        for name, p in trainable
        if p.dim() < 2 and name in shrunk and float(before[name].float().abs().max()) > 0
    ]
    matrices = [name for name, p in trainable if p.dim() >= 2]
    still = [name for name in matrices if name not in shrunk]
    strongest = max(
        (float(group.get("weight_decay", 0.0) or 0.0) for group in optimizer.param_groups), default=0.0
    )
    split = len(optimizer.param_groups) > 1
    if vectors and subject.declared.no_decay is not False:
        # One group at torch's own default is what people write who have not thought about decay; anything else was meant to be right.
        sure = subject.declared.no_decay or split or strongest > 0.011
        yield Finding(
            "OPT-WIRING/decay-on-vectors",
            ("stop" if subject.declared.no_decay or split else "warn") if sure else "note",
            "one-step",
            location=f"optimizer: {vectors[0]}",
            numbers=numbers(vectors=len(vectors), decay=strongest, names=", ".join(vectors[:5])),
        )
    if strongest > 0 and matrices and len(still) == len(matrices):
        yield Finding(
            "OPT-WIRING/no-decay-at-all",
            "stop",
            "one-step",
            location="optimizer",
            numbers=numbers(decay=strongest, matrices=len(matrices)),
        )


def _plain_step(optimizer: torch.optim.Optimizer) -> None:
    rates = [group.get("lr") for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        if not group.get("lr"):
            group["lr"] = 1e-3
    try:
        optimizer.step()
    finally:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate


def _moves(subject: Subject, module: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[Finding]:
    """One real step on one real batch."""
    loss_view = subject.need_loss()
    example = subject.small
    trainable = [
        (name, p) for name, p in module.named_parameters() if p.requires_grad and not frozen(subject, name)
    ]
    view = subject.need_model()
    with subject.awake(), silent(module), view.mode(training=True):
        for _, parameter in trainable:
            parameter.grad = None
        loss_view.of(example).backward()  # type: ignore[no-untyped-call]
        dead = [name for name, p in trainable if p.grad is None]
        zero = [name for name, p in trainable if p.grad is not None and not bool(p.grad.any())]
        broken = [
            name for name, p in trainable if p.grad is not None and not bool(torch.isfinite(p.grad).all())
        ]
    if broken:
        yield Finding(
            "NUMERIC/gradient-not-finite",
            "stop",
            "one-step",
            location=f"gradient: {broken[0]}",
            numbers=numbers(tensors=len(broken), names=", ".join(broken[:5])),
        )
        return
    if dead or zero:
        first = (dead or zero)[0]
        yield Finding(
            "OPT-WIRING/no-gradient",
            "stop",
            "one-step",
            location=f"gradient: {first}",
            numbers=numbers(
                none=len(dead), zero=len(zero), parameters=len(trainable), names=", ".join((dead + zero)[:5])
            ),
        )
    with subject.borrowed(optimizer), silent(module), view.mode(training=True):
        yield from _step_effect(subject, module, optimizer, trainable, example)


def _step_effect(
    subject: Subject,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    trainable: list[tuple[str, nn.Parameter]],
    example: Example,
) -> Iterator[Finding]:
    loss_view = subject.need_loss()
    before = {name: p.detach().clone() for name, p in trainable}
    for _, parameter in trainable:
        parameter.grad = None
    first = loss_view.of(example)
    first.backward()  # type: ignore[no-untyped-call]
    gradients = {name: p.grad.detach().clone() for name, p in trainable if p.grad is not None}
    optimizer.state.clear()
    _plain_step(optimizer)
    rate = max(float(group.get("lr") or 1e-3) for group in optimizer.param_groups)
    yield from _state_dtype(subject, module, optimizer)
    tiny, uphill, ratio, worst = [], [], 0.0, ""
    for name, parameter in trainable:
        gradient = gradients.get(name)
        if gradient is None or not bool(gradient.any()):
            continue
        moved = (parameter.detach() - before[name]).float()
        asked = gradient != 0
        share = float((moved[asked] != 0).float().mean())
        if share < 0.25 and parameter.dim() >= 2:
            tiny.append((name, share))
        if float((moved * gradient.float()).sum()) > 0:
            uphill.append(name)
        relative = float(moved.norm() / before[name].float().norm().clamp_min(1e-8))
        if relative > ratio and parameter.dim() >= 2 and float(before[name].float().norm()) > 1e-3:
            ratio, worst = relative, name
    if tiny:
        yield Finding(
            "OPT-WIRING/update-lost",
            "stop",
            "one-step",
            location=f"optimizer: {tiny[0][0]}",
            numbers=numbers(
                tensors=len(tiny),
                share=tiny[0][1],
                dtype=str(before[tiny[0][0]].dtype).removeprefix("torch."),
                rate=rate,
            ),
        )
    if len(uphill) > 0.5 * len(gradients):
        yield Finding(
            "OPT-WIRING/uphill",
            "stop",
            "one-step",
            location="optimizer",
            numbers=numbers(rate=rate, tensors=len(uphill), maximize=False),
        )
    if ratio > 1.0 and subject.schedule is None:
        yield Finding(
            "OPT-WIRING/rate-high",
            "warn",
            "one-step",
            location=f"optimizer: {worst}",
            numbers=numbers(rate=rate, ratio=ratio),
        )


def _state_dtype(subject: Subject, module: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[Finding]:
    wanted = subject.declared.state_dtype
    low = set()
    for state in optimizer.state.values():
        for key, value in state.items():
            if (
                isinstance(value, torch.Tensor)
                and value.is_floating_point()
                and value.dtype in (torch.bfloat16, torch.float16)
            ) or (
                isinstance(value, torch.Tensor)
                and wanted
                and value.is_floating_point()
                and value.numel() > 1
                and str(value.dtype) != f"torch.{wanted}"
            ):
                low.add(key)
    if low and wanted not in ("bfloat16", "float16"):
        yield Finding(
            "NUMERIC/state-half",
            "stop",
            "one-step",
            location="optimizer: state",
            numbers=numbers(fields=", ".join(sorted(low))),
        )


# -- T10: the user's own step ----------------------------------------------------------------------------------------------------
def batch_algebra(subject: Subject) -> Iterator[Finding]:
    """One batch of B, B micro-batches of one, and uneven ones give the gradient of the mean over all active targets; padding changes nothing."""
    loss_view = subject.need_loss()
    module = subject.need_module()
    yield from _padding(subject)
    if subject.train_step is None:
        if loss_view.form == "logits" or subject.optimizer is None:
            raise Cannot("no train_step was given: how your loop puts micro-batches together cannot be seen")
        raise Cannot("no train_step was given: how your loop puts micro-batches together cannot be seen")
    optimizer = get_optimizer(subject)
    example = unevenly_masked(subject.small, subject.label_offset) or subject.small
    example = to_device(example, subject.need_model().device)
    pieces = [example.take(slice(row, row + 1)) for row in range(example.ids.shape[0])]
    with silent(module):
        yield from _step_gradients(subject, optimizer, example, pieces)


def reference_gradient(subject: Subject, pieces: list[Example]) -> dict[str, torch.Tensor]:
    """Gradient of the mean over all active targets of all pieces, from the loss of each piece and its own count."""
    module = subject.need_module()
    loss_view = subject.need_loss()
    kept = [(p, p.grad) for p in module.parameters()]
    for parameter in module.parameters():
        parameter.grad = None
    counts = [int(expected_active(piece, subject.label_offset).sum()) for piece in pieces]
    total = max(1, sum(counts))
    for piece, count in zip(pieces, counts, strict=True):
        if count:
            (loss_view.of(piece) * (count / total)).backward()  # type: ignore[no-untyped-call]
    found = {name: p.grad.detach().clone() for name, p in module.named_parameters() if p.grad is not None}
    for parameter, gradient in kept:
        parameter.grad = gradient
    return found


def relative_gap(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> float:
    """Norm of the difference over the norm of `right`, all tensors together."""
    names = set(left) | set(right)
    gap = size = 0.0
    for name in names:
        a, b = left.get(name), right.get(name)
        if a is None or b is None:
            other = a if a is not None else b
            assert other is not None
            gap += float(other.double().square().sum())
            continue
        gap += float((a.double() - b.double()).square().sum())
        size += float(b.double().square().sum())
    return math.sqrt(gap / max(size, 1e-30))


def scale_of(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> tuple[float, float]:
    """The factor that fits `left` = factor · `right` best, and how well (cosine)."""
    dot = sum(float((left[name].double() * right[name].double()).sum()) for name in left if name in right)
    a = math.sqrt(sum(float(value.double().square().sum()) for value in left.values()))
    b = math.sqrt(sum(float(value.double().square().sum()) for value in right.values()))
    return dot / max(b * b, 1e-30), dot / max(a * b, 1e-30)


def _step_gradients(
    subject: Subject, optimizer: torch.optim.Optimizer, whole: Example, pieces: list[Example]
) -> Iterator[Finding]:
    assert subject.train_step is not None
    module = subject.need_module()
    limit = TOLERANCE.get(subject.need_model().dtype, 3e-2)
    clip = subject.declared.clip
    for label, parts in (
        ("one batch", [whole]),
        ("micro-batches of one", pieces),
        ("uneven micro-batches", _uneven(whole)),
    ):
        with subject.borrowed(optimizer):
            seen: list[dict[str, torch.Tensor]] = []
            expected: list[dict[str, torch.Tensor]] = []
            original = optimizer.step

            def spy(
                *arguments: Any,
                _original: Any = original,
                _seen: list[dict[str, torch.Tensor]] = seen,
                **keywords: Any,
            ) -> Any:
                _seen.append(
                    {
                        name: p.grad.detach().clone()
                        for name, p in module.named_parameters()
                        if p.grad is not None
                    }
                )
                return _original(*arguments, **keywords)

            optimizer.step = spy  # type: ignore[method-assign]
            try:
                for _ in range(2):
                    with subject.need_model().mode(training=True):
                        expected.append(reference_gradient(subject, parts))
                        subject.train_step(
                            subject.need_model().model, optimizer, [part.raw for part in parts]
                        )
            finally:
                optimizer.step = original  # type: ignore[method-assign]
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
        for index, (got, want) in enumerate(zip(seen, expected, strict=False)):
            want = _clipped(want, clip)
            gap = relative_gap(got, want)
            if gap > limit:
                factor, cosine = scale_of(got, want)
                yield _named(label, index, gap, factor, cosine, len(parts))
                return


def _clipped(gradient: dict[str, torch.Tensor], clip: float | None) -> dict[str, torch.Tensor]:
    if clip is None:
        return gradient
    norm = math.sqrt(sum(float(value.double().square().sum()) for value in gradient.values()))
    return {name: value * (clip / norm) for name, value in gradient.items()} if norm > clip else gradient


def _named(label: str, index: int, gap: float, factor: float, cosine: float, parts: int) -> Finding:
    """A factor alone is a wrong divisor; another direction is wrong weights; only the second step wrong is a gradient left over."""
    counts = numbers(gap=gap, factor=factor, cosine=cosine, micro_batches=parts, case=label, call=index + 1)
    if index == 1:
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


def _padding(subject: Subject) -> Iterator[Finding]:
    """More padding at the right end must change neither loss nor gradient, where the batch has a way to say what is padding."""
    example = subject.small
    if example.labels is None or example.attention_mask is None or example.attention_mask.dim() != 2:
        return
    loss_view = subject.need_loss()
    padded = pad_right(example, 5)
    module = subject.need_module()
    with torch.no_grad(), silent(module), subject.need_model().mode(training=True):
        try:
            plain, more = float(loss_view.of(example)), float(loss_view.of(padded))
        except (RuntimeError, IndexError, ValueError):
            return
    if math.isfinite(plain) and abs(more - plain) > 1e-3 * abs(plain) + 1e-5:
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
