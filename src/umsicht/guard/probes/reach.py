"""T7, the other way round: what stands at the beginning of a row must matter at its end, or the row is shorter than it says."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from umsicht.findings import Finding
from umsicht.guard.adapt_batch import Example
from umsicht.guard.probes.prefix import other_ids
from umsicht.guard.subject import Cannot, Subject, numbers

STAGE = "causal-prefix"
_WINDOWS = ("sliding_window", "attention_window", "local_window", "window_size", "sliding_window_size")


def reach(subject: Subject) -> Iterator[Finding]:
    """One early token changed at a time, at doubling distances from the last position: the furthest that moves its logits to any bit."""
    hidden = _behind_mask(subject)
    if hidden is not None:
        yield hidden
        return
    view = subject.need_model()
    example = subject.small
    row = int(example.real.sum(dim=1).argmax())
    ids = example.ids[row][example.real[row]][None]
    seq = ids.shape[1]
    if seq < 8:
        raise Cannot("rows are too short to look back in")
    distances = [*(1 << power for power in range(16) if 1 << power < seq - 1), seq - 1]
    changed = ids.repeat(len(distances) + 1, 1)
    for number, distance in enumerate(distances):
        place = seq - 1 - distance
        changed[number, place] = other_ids(subject, ids[0, place : place + 1], number)[0]
    with subject.awake(), torch.no_grad(), view.mode(training=False):
        last = view.logits(changed)[:, -1].float()
    seen = [d for number, d in enumerate(distances) if not torch.equal(last[number], last[-1])]
    far = max(seen, default=0)
    if far == distances[-1] or far >= _declared_window(view.module):
        return
    yield Finding(
        "CONTEXT/cut-off",
        # A row length is declared in Umsicht's own recipes; elsewhere a short reach may be meant.
        "stop" if subject.extra.get("seq_len") else "warn",
        STAGE,
        location=f"model: distance {next(d for d in distances if d > far)}",
        numbers=numbers(reach=far, length=seq, unseen=next(d for d in distances if d > far)),
    )


def _behind_mask(subject: Subject) -> Finding | None:
    """The same in a padded row under the batch's own mask: the token beside the last real one must matter, as it does without a mask.

    A mask read the wrong way round hides what is real and shows the padding.
    """
    view, example = subject.need_model(), subject.small
    mask = example.attention_mask
    if mask is None or mask.dim() != 2 or view.accepts("attention_mask") is None:
        return None
    counts = example.real.sum(dim=1)
    padded = [row for row, n in enumerate(counts.tolist()) if 3 <= n < example.ids.shape[1]]
    with subject.awake(), torch.no_grad(), view.mode(training=False):
        for row in padded[:4]:
            if _hides(subject, example.take(slice(row, row + 1))):
                return Finding(
                    "CONTEXT/mask-hides",
                    "stop",
                    STAGE,
                    location="model: attention mask",
                    numbers=numbers(real=int(counts[row]), length=int(example.ids.shape[1])),
                )
    return None


def _hides(subject: Subject, one: Example) -> bool:
    """Whether the last real token of a row is blind to the one beside it under the mask, and not without it."""
    view = subject.need_model()
    places = one.real[0].nonzero().flatten().tolist()
    near = slice(places[-2], places[-2] + 1)
    changed = one.ids.clone()
    changed[0, near] = other_ids(subject, one.ids[0, near], 1)
    other = one.with_ids(changed)
    shown = [view.logits(item.ids, **item.context)[0, places[-1]] for item in (one, other)]
    plain = [view.logits(item.ids)[0, places[-1]] for item in (one, other)]
    return torch.equal(shown[0], shown[1]) and not torch.equal(plain[0], plain[1])


def _declared_window(module: nn.Module | None) -> int:
    """The window that the model's own configuration names; a huge one where it names none."""
    config = getattr(module, "config", None)
    named = [getattr(config, name, None) for name in _WINDOWS]
    found = [value for value in named if isinstance(value, int) and not isinstance(value, bool) and value > 0]
    return min(found) if found else 1 << 30
