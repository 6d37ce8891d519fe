"""T7: no logit may depend on a later token, on another row, or on the targets; on the training path, in every mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from umsicht.findings import Finding
from umsicht.guard.adapt_batch import Example
from umsicht.guard.subject import Cannot, Subject, numbers, to_device, token_id

STAGE = "causal-prefix"
FLOOR = {torch.float32: 1e-6, torch.float64: 1e-12, torch.bfloat16: 1e-3, torch.float16: 1e-3}
"""Relative differences that count as none. On CPU two runs of the same shape are equal to the bit; the floor covers foreign kernels."""

MOST_POSITIONS = 2048

Path = Callable[[Example], torch.Tensor]


@dataclass(frozen=True)
class Leak:
    """The largest change of logits that should not have moved, relative to their spread, and where."""

    size: float
    row: int
    position: int
    cut: int
    spread: int

    @property
    def reach(self) -> int:
        """How far after the position the change began."""
        return self.cut - self.position


def causal_prefix(subject: Subject) -> Iterator[Finding]:
    """Eval mode, train mode, the path inside the loss, full rows and odd lengths; the first path that leaks is named."""
    view = subject.need_model()
    example = subject.small
    if example.ids.shape[1] < 2:
        raise Cannot("rows of one token have no future")
    with subject.awake():
        for name, path, training in paths(subject):
            with view.mode(training):
                found = _first_leak(subject, path, name)
            if found is not None:
                yield found
                return
        leak = None if subject.prefers else loss_leak(subject)
        if leak is not None:
            yield leak
            return
        yield from _row_leak(subject)
        yield from _target_leak(subject)


def paths(subject: Subject) -> Iterator[tuple[str, Path, bool]]:
    """Every way in which logits are made: (name, function, training mode)."""
    view = subject.need_model()

    def plain(example: Example) -> torch.Tensor:
        return view.logits(example.ids, **example.context)

    def bare(example: Example) -> torch.Tensor:
        return view.logits(example.ids)

    yield "model.eval()", plain, False
    yield "model.train()", plain, True
    if any(value is not None for value in subject.small.context.values()):
        yield "model.eval() without masks", bare, False
    hidden = subject.extra.get("training_logits")
    if hidden is not None:
        yield "training step", hidden, True
    loss = subject.loss
    # The rows of a preference belong together: its step takes no row by itself.
    if loss is not None and loss.form != "logits" and not subject.prefers:

        def inside(example: Example) -> torch.Tensor:
            with torch.enable_grad():
                logits = loss.training_logits(example)
            if logits is None:
                raise Cannot("the training path makes no logits")
            return logits.detach()

        yield "training step", inside, True


def _first_leak(subject: Subject, path: Path, name: str) -> Finding | None:
    for example, cuts in cases(subject, name):
        try:
            leak = measure(subject, path, example, cuts)
        except Cannot:
            return None
        if leak is not None:
            return Finding(
                "LEAK-FUTURE/prefix",
                "stop",
                STAGE,
                location=f"model: {name}, position {leak.position}",
                numbers=numbers(
                    delta=leak.size,
                    position=leak.position,
                    cut=leak.cut,
                    positions=leak.spread,
                    length=int(example.ids.shape[1]),
                    path=name,
                ),
            )
    return None


def cases(subject: Subject, name: str) -> Iterator[tuple[Example, list[int]]]:
    """Rows to look at: real text at full length with many cuts, random ids, and shorter rows (other kernels, block edges)."""
    example = subject.small
    seq = example.ids.shape[1]
    count = max(4, min(8 if subject.quick else 24, MOST_POSITIONS // seq))
    yield example, cut_points(seq, count, subject.seed + len(name))
    if "step" in name or "without" in name:
        return
    for length in sorted({seq - 1, seq // 2 + 1, min(seq, 17)}):
        if 2 <= length < seq:
            yield crop(example, length), cut_points(length, 6, subject.seed + length)


def cut_points(seq: int, count: int, seed: int) -> list[int]:
    """First changed positions: the ends, block edges of kernels, and some at random."""
    edges = [
        1,
        2,
        seq - 1,
        seq // 2,
        *(size + step for size in (8, 16, 32, 64, 128, 256, 512, 1024) for step in (0, 1)),
    ]
    chosen = list(dict.fromkeys(cut for cut in edges if 0 < cut < seq))
    generator = torch.Generator().manual_seed(seed)
    for value in torch.randperm(seq, generator=generator).tolist():
        if len(chosen) >= count:
            break
        if 0 < value < seq and value not in chosen:
            chosen.append(value)
    return chosen[: max(1, count)]


def crop(example: Example, length: int) -> Example:
    """The first `length` positions of every row."""
    from umsicht.guard.adapt_batch import _map

    shape = example.ids.shape
    made: dict[int, torch.Tensor] = {}

    def cut(value: object) -> object:
        if isinstance(value, torch.Tensor) and value.dim() >= 2 and value.shape[:2] == shape:
            return made.setdefault(id(value), value[:, :length].contiguous())
        return value

    values = {name: cut(value) for name, value in vars(example).items() if name != "raw"}
    return Example(raw=_map(example.raw, cut), **values)  # type: ignore[arg-type]  # tensors stay tensors


def measure(subject: Subject, path: Path, example: Example, cuts: list[int]) -> Leak | None:
    """Change everything from a cut on, one cut a row; logits before the cut must not move.

    All cuts go into one batch of copies of real rows: two calls of the model a case, and a third for the noise floor.
    """
    rows = example.ids.shape[0]
    base = example.take(torch.tensor([number % rows for number in range(len(cuts))]))
    changed = base.ids.clone()
    for row, cut in enumerate(cuts):
        changed[row, cut:] = other_ids(subject, base.ids[row, cut:], row)
    before, floor = _twice(subject, path, base)
    after = _once(subject, path, base.with_ids(changed))
    scale = float(before.float().std().clamp_min(1e-12))
    limit = max(FLOOR.get(before.dtype, 1e-3), 10 * floor)
    worst: Leak | None = None
    for row, cut in enumerate(cuts):
        moved = (before[row, :cut].float() - after[row, :cut].float()).abs().amax(dim=-1) / scale
        moved = torch.nan_to_num(moved, nan=float("inf"))
        size = float(moved.max())
        if size > limit and (worst is None or size > worst.size):
            worst = Leak(size, row, int(moved.argmax()), cut, int((moved > limit).sum()))
    return worst


def other_ids(subject: Subject, ids: torch.Tensor, seed: int) -> torch.Tensor:
    """Ids that differ from `ids` everywhere, the end and pad tokens among them."""
    limit = max(2, subject.usable_ids)
    generator = torch.Generator().manual_seed(seed + 17)
    step = torch.randint(1, limit, ids.shape, generator=generator).to(ids)
    changed = (ids + step) % limit
    special = (
        [token_id(subject.tokenizer, role) for role in ("eos", "pad")]
        if subject.tokenizer is not None
        else []
    )
    for position, value in enumerate(value for value in special if value is not None):
        if ids.shape[0] > 4 + position and int(ids[2 + position]) != value:
            changed[2 + position] = value
    return changed


def _once(subject: Subject, path: Path, example: Example) -> torch.Tensor:
    torch.manual_seed(subject.seed + 1)
    with torch.no_grad():
        return path(example).detach().clone()


def _twice(subject: Subject, path: Path, example: Example) -> tuple[torch.Tensor, float]:
    """Logits, and by how much they differ when the same is computed again with the same seed."""
    first = _once(subject, path, example)
    again = _once(subject, path, example)
    floor = float((first.float() - again.float()).abs().max() / first.float().std().clamp_min(1e-12))
    return first, floor if floor == floor else 0.0


def loss_leak(subject: Subject) -> Finding | None:
    """The loss itself, on the whole training path: with targets only before a cut, what stands behind the cut must not matter."""
    loss, example = subject.loss, subject.small
    if loss is None or loss.form == "logits" or example.labels is None:
        return None
    seq = example.ids.shape[1]
    cuts = cut_points(seq, 8 if subject.quick else 12, subject.seed + 3)
    base = example.take(torch.tensor([number % example.ids.shape[0] for number in range(len(cuts))]))
    assert base.labels is not None
    ids, labels = base.ids.clone(), base.labels.clone()
    for row, cut in enumerate(cuts):
        ids[row, cut:] = other_ids(subject, base.ids[row, cut:], row)
        labels[row, cut:] = -100
    one, other = base.with_ids(base.ids, labels), base.with_ids(ids, labels)
    for training in (True, False):
        with subject.need_model().mode(training):
            sizes = loss_moves(subject, one, other)
            if sizes is None or sizes[0] <= sizes[1] or _beside_targets(subject, one, other):
                continue
            return Finding(
                "LEAK-FUTURE/loss",
                "stop",
                STAGE,
                location=f"model: training step, {'train' if training else 'eval'} mode",
                numbers=numbers(delta=sizes[0], rows=len(cuts), length=seq),
            )
    return None


def _beside_targets(subject: Subject, one: Example, other: Example) -> bool:
    """True where all that moved is a term beside the cross-entropy: a router's balance may look at every position, its targets may not.

    That is seen where the logits themselves are: the loss pulls at the same targets with a whole weight, and their cross-entropy stays.
    """
    found = []
    for example in (one, other):
        torch.manual_seed(subject.seed + 1)
        try:
            with torch.enable_grad():
                found.append(subject.effective(example))
        except LookupError:
            return False
    before, after = found
    if before.pulled is None or after.pulled is None or not bool(before.active.any()):
        return False
    same = torch.equal(before.active, after.active) and torch.equal(before.targets, after.targets)
    whole = all(abs(float(item.weights.sum()) - 1) < 0.08 for item in found)
    alone = not any(bool((item.pulled & ~item.active).any()) for item in found if item.pulled is not None)
    limit = 10 * FLOOR.get(subject.need_model().dtype, 1e-3)
    return same and whole and alone and abs(after.reference - before.reference) <= limit * before.reference


def loss_moves(subject: Subject, one: Example, other: Example) -> tuple[float, float] | None:
    """(relative change of the loss from one batch to another of the same targets, largest change that is noise)."""
    loss = subject.need_loss()

    def value(example: Example) -> float:
        torch.manual_seed(subject.seed + 1)
        with torch.no_grad():
            return float(loss.of(example))

    first, again, after = value(one), value(one), value(other)
    if not all(abs(number) < float("inf") for number in (first, again, after)):
        return None
    scale = max(abs(first), 1e-6)
    floor = FLOOR.get(subject.need_model().dtype, 1e-3)
    return abs(after - first) / scale, max(floor, 10 * abs(again - first) / scale)


def _row_leak(subject: Subject) -> Iterator[Finding]:
    """Other rows of the batch must not matter: statistics over the batch are a leak between samples."""
    view = subject.need_model()
    example = subject.small
    if example.ids.shape[0] < 2:
        example = to_device(example.take(torch.zeros(2, dtype=torch.long)), view.device)
    changed = example.ids.clone()
    for row in range(1, changed.shape[0]):
        changed[row] = other_ids(subject, changed[row], row)
    for name, path, training in paths(subject):
        if "step" in name:
            continue
        with view.mode(training):
            before, floor = _twice(subject, path, example)
            after = _once(subject, path, example.with_ids(changed))
        size = float(
            (before[0].float() - after[0].float()).abs().max() / before.float().std().clamp_min(1e-12)
        )
        if size > max(FLOOR.get(before.dtype, 1e-3), 10 * floor):
            yield Finding(
                "LEAK-DOC/rows",
                "stop",
                STAGE,
                location=f"model: {name}",
                numbers=numbers(delta=size, path=name),
            )
            return


def _target_leak(subject: Subject) -> Iterator[Finding]:
    """Logits must not depend on the labels handed to the model."""
    loss = subject.loss
    example = subject.small
    if loss is None or loss.form == "logits" or example.labels is None:
        return
    labels = torch.where(
        example.labels >= 0,
        other_ids(subject, example.labels.reshape(-1).clamp_min(0), 3).view_as(example.labels),
        example.labels,
    )
    with subject.need_model().mode(training=True):
        torch.manual_seed(subject.seed + 1)
        before = loss.training_logits(example)
        torch.manual_seed(subject.seed + 1)
        after = loss.training_logits(example.with_ids(example.ids, labels))
    if before is None or after is None or before.shape != after.shape:
        return
    size = float(
        (before.detach().float() - after.detach().float()).abs().max()
        / before.detach().float().std().clamp_min(1e-12)
    )
    if size > 10 * FLOOR.get(before.dtype, 1e-3):
        yield Finding(
            "LEAK-FUTURE/targets", "stop", STAGE, location="model: training step", numbers=numbers(delta=size)
        )
