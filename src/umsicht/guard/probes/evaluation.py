"""T13: an evaluation is a function of the weights: the same twice, at any batch size, in eval mode, with the mode put back, summed and not averaged."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from umsicht.findings import Finding
from umsicht.guard.probes.averaged import follows, scores_other_weights
from umsicht.guard.probes.mask import expected_active
from umsicht.guard.probes.norm import unevenly_masked
from umsicht.guard.subject import Cannot, Subject, numbers, to_device

STAGE = "evaluation"


def evaluation(subject: Subject) -> Iterator[Finding]:
    """First repeat, then batch size, then mode, then value: each only means something where the one before it holds."""
    subject.need_model()
    subject.need_example()
    with subject.awake():
        found = list(_repeat(subject))
        if not found:
            found = list(_batch_size(subject))
        if not found and subject.evaluate is not None:
            found = list(_users(subject))
        if not found and subject.extra.get("score") is not None:
            found = list(_scores(subject))
    yield from found


def _logits(subject: Subject, ids: torch.Tensor, context: dict[str, torch.Tensor | None]) -> torch.Tensor:
    with torch.no_grad(), subject.need_model().mode(training=False):
        return subject.need_model().logits(ids, **context).float()


def _repeat(subject: Subject) -> Iterator[Finding]:
    example = subject.small
    torch.manual_seed(11)
    first = _logits(subject, example.ids, example.context)
    torch.manual_seed(12)
    second = _logits(subject, example.ids, example.context)
    size = float((first - second).abs().max() / first.std().clamp_min(1e-12))
    if size > 1e-6 and not subject.declared.dropout_in_eval:
        yield Finding(
            "EVAL-VALIDITY/not-repeatable",
            "stop",
            STAGE,
            location="model: eval mode",
            numbers=numbers(delta=size),
        )


def _batch_size(subject: Subject) -> Iterator[Finding]:
    """The same row alone and among others; rows of different length with padding where the batch can say what is padding."""
    example = subject.small
    together = _logits(subject, example.ids, example.context)
    worst = 0.0
    for row in range(example.ids.shape[0]):
        one = example.take(slice(row, row + 1))
        alone = _logits(subject, one.ids, one.context)
        real = one.real[0].to(alone.device)
        worst = max(
            worst,
            float((together[row] - alone[0]).abs().amax(-1)[real].max() / together.std().clamp_min(1e-12))
            if bool(real.any())
            else 0.0,
        )
    limit = 1e-3 if subject.need_model().dtype in (torch.float32, torch.float64) else 5e-2
    if worst > limit:
        yield Finding(
            "EVAL-VALIDITY/batch-size",
            "stop",
            STAGE,
            location="model: eval mode",
            numbers=numbers(delta=worst, rows=int(example.ids.shape[0])),
        )
        return
    yield from _left_padding(subject)


def _left_padding(subject: Subject) -> Iterator[Finding]:
    """Batches padded on the left: a padded row must read as it does alone. Only where such rows come."""
    view = subject.need_model()
    for example in subject.examples:
        mask = example.attention_mask
        if mask is None or mask.dim() != 2 or not bool((mask[:, 0] == 0).any()):
            continue
        moved = to_device(example, view.device)
        row = int((mask[:, 0] == 0).nonzero()[0])
        start = int(mask[row].to(torch.int64).argmax())
        with torch.no_grad(), view.mode(training=False):
            padded = view.logits(moved.ids, **moved.context)[row, start:].float()
            alone = view.logits(moved.ids[row : row + 1, start:])[0].float()
        size = float((padded - alone).abs().max() / alone.std().clamp_min(1e-12))
        if size > 1e-2:
            yield Finding(
                "LEAK-DOC/left-padding",
                "stop",
                STAGE,
                location="model: left padding",
                numbers=numbers(delta=size, pads=start),
            )
        return


def _users(subject: Subject) -> Iterator[Finding]:
    """The user's own evaluation: repeat, batches cut differently, value, mode."""
    assert subject.evaluate is not None
    view = subject.need_model()
    module = view.module
    examples = [to_device(example, view.device) for example in subject.examples[:4]]
    uneven = [unevenly_masked(example) or example for example in examples]
    whole = [example.raw for example in uneven]
    pieces = [
        example.take(slice(row, row + 1)).raw for example in uneven for row in range(example.ids.shape[0])
    ]
    for training in (True, False):
        with view.mode(training):
            before = _state_of(module) if module is not None else {}
            torch.manual_seed(5)
            first = _number(subject.evaluate(view.model, list(whole)))
            after = module.training if module is not None else training
            torch.manual_seed(6)
            second = _number(subject.evaluate(view.model, list(whole)))
            touched = _touched(module, before) if module is not None else ""
        if touched:
            yield Finding(
                "EVAL-VALIDITY/changes-model",
                "stop",
                STAGE,
                location=f"evaluation: {touched}",
                numbers=numbers(part=touched),
            )
            return
        if abs(first - second) > 1e-6 * max(1.0, abs(first)):
            yield Finding(
                "EVAL-VALIDITY/not-repeatable",
                "stop",
                STAGE,
                location="evaluation",
                numbers=numbers(delta=abs(first - second), first=first, second=second),
            )
            return
        if after != training:
            yield Finding(
                "EVAL-VALIDITY/mode-not-restored",
                "stop",
                STAGE,
                location="evaluation",
                numbers=numbers(before="train" if training else "eval"),
            )
            return
    if subject.prefers:
        # Its rows belong together, and its value is no mean over targets.
        return
    parted = _number(subject.evaluate(view.model, pieces))
    if abs(parted - first) > 2e-4 * max(1.0, abs(first)):
        yield Finding(
            "EVAL-VALIDITY/mean-of-means",
            "stop",
            STAGE,
            location="evaluation",
            numbers=numbers(whole=first, pieces=parted, delta=abs(parted - first)),
        )
        return
    if subject.loss is None:
        return

    def number() -> float:
        assert subject.evaluate is not None
        return _number(subject.evaluate(view.model, list(whole)))

    if module is not None and scores_other_weights(subject, number, first):
        behind = follows(subject, number, first, uneven)
        if behind is not None:
            yield behind
        return
    # Rows as they come too: a last position left out does not show where it is masked anyway.
    for shown in (uneven, examples):
        found = (
            first if shown is uneven else _number(subject.evaluate(view.model, [one.raw for one in shown]))
        )
        problem = _value(subject, shown, found)
        if problem is not None:
            yield problem
            return


def _value(subject: Subject, examples: list[Any], found: float) -> Finding | None:
    """The evaluation's number against nats a target, or their exponential, added up here."""
    view, nats, count = subject.need_model(), 0.0, 0
    with torch.no_grad(), view.mode(training=False):
        for example in examples:
            count += int(expected_active(example, subject.label_offset).sum())
            nats += reference_nats(subject, example)
    want = nats / max(1, count)
    close = 3e-4 if view.dtype in (torch.float32, torch.float64) else 2e-3
    perplexity = math.exp(min(want, 50))
    if (
        not math.isfinite(want)
        or abs(found - want) <= close * max(1.0, abs(want))
        or abs(found - perplexity) <= close * max(1.0, want) * perplexity
    ):
        return None
    positions = sum(example.ids.numel() for example in examples)
    over_all = abs(found - nats / positions) < 0.01 * max(1.0, abs(found))
    return Finding(
        "EVAL-VALIDITY/ignored-counted" if over_all and count < positions else "EVAL-VALIDITY/value",
        "stop",
        STAGE,
        location="evaluation",
        numbers=numbers(found=found, expected=want, active=count, counted=positions),
    )


def _state_of(module: nn.Module) -> dict[str, torch.Tensor | None]:
    """Weights, buffers and gradients: what an evaluation has no business changing."""
    state: dict[str, torch.Tensor | None] = {
        name: value.detach().clone() for name, value in module.state_dict().items()
    }
    for name, parameter in module.named_parameters():
        state[f"{name} (gradient)"] = None if parameter.grad is None else parameter.grad.detach().clone()
    return state


def _touched(module: nn.Module, before: dict[str, torch.Tensor | None]) -> str:
    """The first tensor that is no longer what it was, or nothing."""
    for name, now in _state_of(module).items():
        was = before.get(name)
        if (was is None) != (now is None) or (
            was is not None and now is not None and not torch.equal(was, now)
        ):
            return name
    return ""


def reference_nats(subject: Subject, example: Any) -> float:
    """Nats of all active targets of a batch, added up here from the logits; to be called without gradients, in evaluation mode."""
    logits = subject.need_model().logits(example.ids, **example.context).float()
    mask = expected_active(example, subject.label_offset)
    if subject.label_offset == 1:
        targets = example.labels
    else:
        targets = torch.roll(example.ids, -1, dims=1)
    return float(functional.cross_entropy(logits[mask], targets[mask], reduction="sum"))


def _number(value: Any) -> float:
    if isinstance(value, dict):
        for name in ("loss", "eval_loss", "val/all/loss", "val_loss"):
            if name in value:
                return float(value[name])
        value = next(iter(value.values()))
    if isinstance(value, tuple | list):
        value = value[0]
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise Cannot("evaluate= gives no number") from error


def _scores(subject: Subject) -> Iterator[Finding]:
    """Umsicht's own scores: repeat, batch sizes, mode, and nats and bytes of some documents added up by hand."""
    score = subject.extra["score"]
    split = subject.extra["scored"]
    module = subject.need_module()
    module.train()
    first = score(module, split, None)
    mode = module.training
    torch.manual_seed(3)
    second = score(module, split, None)
    small = score(module, split, int(subject.extra["seq_len"]))
    module.eval()
    in_eval = score(module, split, None)
    if not mode:
        yield Finding(
            "EVAL-VALIDITY/mode-not-restored",
            "stop",
            STAGE,
            location="evaluation",
            numbers=numbers(before="train"),
        )
        return
    for kind, other, limit in (
        ("not-repeatable", second, 0.0),
        ("eval-mode", in_eval, 0.0),
        ("batch-size", small, 1e-5),
    ):
        for name in first:
            gap = abs(first[name].nats - other[name].nats) / max(1e-9, abs(first[name].nats))
            if gap > limit:
                yield Finding(
                    f"EVAL-VALIDITY/{kind}",
                    "stop",
                    STAGE,
                    location=f"evaluation: {name}",
                    numbers=numbers(delta=gap, rows=0),
                )
                return
    yield from _by_hand(subject, module, split, first)


def _by_hand(subject: Subject, module: Any, split: Any, scores: Any) -> Iterator[Finding]:
    """Sum of nats over every token of every document from plain logits, and raw bytes from the text itself."""
    # In float32 only the order of additions differs; half precision rounds every logit.
    close = 2e-5 if subject.need_model().dtype in (torch.float32, torch.float64) else 1e-2
    seq, prefix = int(subject.extra["seq_len"]), int(subject.extra["eos_id"])
    want: dict[str, list[float]] = {}
    for number in range(split.n_documents):
        ids = np.asarray(split.document(number)).astype(np.int64)
        name = split.slice_of(number)
        sums = want.setdefault(name, [0.0, 0.0, 0.0])
        stream = np.concatenate([[prefix], ids])
        with torch.no_grad():
            for start in range(0, len(ids), seq):
                part = torch.from_numpy(stream[start : start + seq + 1])[None]
                logits = module.eval()(part[:, :-1]).double()
                sums[0] += float(functional.cross_entropy(logits[0], part[0, 1:], reduction="sum"))
        sums[1] += len(ids)
        text = (
            subject.tokenizer.decode_bytes([int(value) for value in ids if int(value) != prefix])
            if subject.tokenizer is not None
            else b""
        )
        sums[2] += len(text)
    total = [sum(values[index] for values in want.values()) for index in range(3)]
    for name, (nats, tokens, size) in want.items():
        score = scores[name]
        if score.tokens != tokens or abs(score.nats - nats) > close * max(1.0, nats):
            yield Finding(
                "EVAL-VALIDITY/value",
                "stop",
                STAGE,
                location=f"evaluation: {name}",
                numbers=numbers(found=score.nats, expected=nats, active=tokens, counted=score.tokens),
            )
            return
        if subject.tokenizer is not None and score.bytes != size:
            yield Finding(
                "EVAL-VALIDITY/byte-count",
                "stop",
                STAGE,
                location=f"evaluation: {name}",
                numbers=numbers(
                    documents=split.n_documents,
                    found=score.bytes,
                    expected=size,
                    compared=0,
                    share=1.0,
                    kind="bytes",
                    slices=name,
                ),
            )
            return
        if size and abs(score.bpb - nats / math.log(2) / size) > close * score.bpb:
            yield Finding(
                "EVAL-VALIDITY/value",
                "stop",
                STAGE,
                location=f"evaluation: {name}",
                numbers=numbers(
                    found=score.bpb, expected=nats / math.log(2) / size, active=tokens, counted=score.tokens
                ),
            )
            return
    if abs(scores.loss - total[0] / total[1]) > close * scores.loss or (
        total[2] and abs(scores.bpb - total[0] / math.log(2) / total[2]) > close * scores.bpb
    ):
        yield Finding(
            "EVAL-VALIDITY/mean-of-means",
            "stop",
            STAGE,
            location="evaluation: all",
            numbers=numbers(
                whole=scores.loss, pieces=total[0] / total[1], delta=abs(scores.loss - total[0] / total[1])
            ),
        )
