"""T8: packed documents that are declared isolated must not see each other, and must read as they do alone."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from umsicht.findings import Finding
from umsicht.guard.adapt_batch import Example
from umsicht.guard.probes.prefix import FLOOR, _once, _twice, loss_moves, other_ids, paths
from umsicht.guard.subject import Cannot, Subject, grade_if, numbers, to_device, token_id

STAGE = "documents"


def document_isolation(subject: Subject) -> Iterator[Finding]:
    """Swap one document of a packed row; the others must not notice. Then read one alone: positions must agree too."""
    packed = packed_row(subject)
    if packed is None:
        raise Cannot("no row holds two documents")
    example, bounds = packed
    claimed = claims_isolation(subject, example)
    with subject.awake():
        leak = _swap(subject, example, bounds)
        if leak is not None:
            grade = grade_if(claimed, "note")
            yield Finding(
                "LEAK-DOC/attention" if claimed else "LEAK-DOC/not-isolated",
                grade,
                STAGE,
                location=leak[0],
                numbers=leak[1],
            )
            return
        if claimed:
            found = list(_loss_swap(subject, example, bounds)) or list(_alone(subject, example, bounds))
            yield from found


def claims_isolation(subject: Subject, example: Example) -> bool:
    """Declared, or obviously meant: the batch brings document ids that the model takes, or positions that begin again."""
    if subject.declared.document_mask is not None:
        return subject.declared.document_mask
    view = subject.need_model()
    if example.document_ids is not None and view.accepts("document_ids"):
        return True
    if example.attention_mask is not None and example.attention_mask.dim() > 2:
        return True
    return example.position_ids is not None and bool((example.position_ids[:, 1:] == 0).any())


def packed_row(subject: Subject) -> tuple[Example, list[int]] | None:
    """One row with at least two documents, and where they begin; from document ids, positions, or end tokens."""
    eos = token_id(subject.tokenizer, "eos") if subject.tokenizer is not None else subject.extra.get("eos_id")
    best: tuple[Example, list[int]] | None = None
    for example in subject.examples:
        starts = document_starts(example, eos)
        for row in range(example.ids.shape[0]):
            bounds = [int(value) for value in starts[row].nonzero().reshape(-1)]
            bounds = bounds if bounds and bounds[0] == 0 else [0, *bounds]
            sizes = [b - a for a, b in zip(bounds, [*bounds[1:], example.ids.shape[1]], strict=True)]
            if len(bounds) >= 2 and sizes[0] >= 2 and sizes[1] >= 2:
                one = to_device(example.take(slice(row, row + 1)), subject.need_model().device)
                if best is None or len(bounds) > len(best[1]):
                    best = (one, bounds)
        if best is not None and len(best[1]) >= 3:
            break
    return best


def document_starts(example: Example, eos: int | None) -> torch.Tensor:
    """True where a document begins, `[rows, seq]`."""
    starts = torch.zeros_like(example.ids, dtype=torch.bool)
    starts[:, 0] = True
    if example.document_ids is not None:
        ids = example.document_ids
        starts[:, 1:] = (ids[:, 1:] != ids[:, :-1]) & (ids[:, 1:] >= 0)
    elif example.position_ids is not None and example.position_ids.shape == example.ids.shape:
        starts[:, 1:] = (example.position_ids[:, 1:] == 0) & example.real[:, 1:]
    elif eos is not None:
        starts[:, 1:] = (example.ids[:, :-1] == eos) & (example.ids[:, 1:] != eos) & example.real[:, 1:]
    return starts


def _swap(subject: Subject, example: Example, bounds: list[int]) -> tuple[str, dict[str, object]] | None:
    """Change each earlier document in turn; logits of the later ones must not move. On every path."""
    view = subject.need_model()
    for name, path, training in paths(subject):
        if "without masks" in name:
            continue
        for index in range(min(len(bounds) - 1, 3)):
            changed = example.ids.clone()
            start, stop = bounds[index], bounds[index + 1]
            body = stop - 1 if stop - 1 > start else stop
            changed[0, start:body] = other_ids(subject, example.ids[0, start:body], index)
            with view.mode(training):
                try:
                    before, floor = _twice(subject, path, example)
                    after = _once(subject, path, example.with_ids(changed))
                except Cannot:
                    break
            moved = (before[0, stop:].float() - after[0, stop:].float()).abs().amax(
                -1
            ) / before.float().std().clamp_min(1e-12)
            size = float(moved.max())
            if size > max(FLOOR.get(before.dtype, 1e-3), 10 * floor):
                where = stop + int(moved.argmax())
                return (
                    f"model: {name}, position {where}",
                    dict(
                        numbers(delta=size, position=where, boundary=stop, documents=len(bounds), path=name)
                    ),
                )
    return None


def _loss_swap(subject: Subject, example: Example, bounds: list[int]) -> Iterator[Finding]:
    """The same on the whole training path: with targets in the last documents only, the first ones must not matter."""
    loss = subject.loss
    if loss is None or loss.form == "logits" or example.labels is None:
        return
    for index in range(min(len(bounds) - 1, 3)):
        start, stop = bounds[index], bounds[index + 1]
        ids, labels = example.ids.clone(), example.labels.clone()
        body = stop - 1 if stop - 1 > start else stop
        ids[0, start:body] = other_ids(subject, example.ids[0, start:body], index)
        labels[0, :stop] = -100
        if not bool((labels >= 0).any()):
            continue
        for training in (True, False):
            with subject.need_model().mode(training):
                sizes = loss_moves(
                    subject, example.with_ids(example.ids, labels), example.with_ids(ids, labels)
                )
            if sizes is not None and sizes[0] > sizes[1]:
                yield Finding(
                    "LEAK-DOC/loss",
                    "stop",
                    STAGE,
                    location="model: training step",
                    numbers=numbers(delta=sizes[0], boundary=stop, documents=len(bounds)),
                )
                return


def _alone(subject: Subject, example: Example, bounds: list[int]) -> Iterator[Finding]:
    """The second document alone in a row gives the logits it has behind the first: masks and positions both right."""
    view = subject.need_model()
    start = bounds[1]
    stop = bounds[2] if len(bounds) > 2 else example.ids.shape[1]
    context: dict[str, torch.Tensor | None] = {}
    if example.document_ids is not None:
        context["document_ids"] = torch.zeros_like(example.document_ids[:, start:stop])
    if example.position_ids is not None:
        context["position_ids"] = torch.arange(stop - start, device=view.device)[None].to(
            example.position_ids
        )
    with torch.no_grad(), view.mode(training=False):
        packed = view.logits(example.ids, **example.context)[0, start:stop].float()
        single = view.logits(example.ids[:, start:stop], **context)[0].float()
    real = example.real[0, start:stop].to(packed.device)
    size = float(((packed - single).abs().amax(-1)[real]).max() / packed.std().clamp_min(1e-12))
    if size > (1e-3 if packed.dtype == torch.float32 and view.dtype == torch.float32 else 5e-2):
        yield Finding(
            "LEAK-DOC/positions",
            "stop",
            STAGE,
            location=f"model: position {start}",
            numbers=numbers(delta=size, start=start, length=stop - start),
        )
