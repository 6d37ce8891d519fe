"""T25: what the starting weights know before anything is trained. Fresh ones know nothing; trained ones know more than nothing, and not everything."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from umsicht.findings import Finding
from umsicht.guard.probes.evaluation import reference_nats
from umsicht.guard.probes.initial import GAP
from umsicht.guard.probes.mask import expected_active
from umsicht.guard.subject import Cannot, Subject, numbers, to_device
from umsicht.model.shards import has_shards
from umsicht.model.weights import WEIGHTS_FILE, load_weights, read_tensors

STAGE = "evaluation"
LOOKED_AT = 8
# A trained model that saves less than a twentieth of a guesser's cost has not been loaded, or reads other ids than it was trained on.
LEARNED = 0.95
# No model predicts unseen text this well: one nat in forty of what guessing costs.
KNOWS_ALL = 0.025


def loaded_as_written(subject: Subject) -> Iterator[Finding]:
    """Every weight that the run starts from is the one that lies in the file, to the bit, and none is left out."""
    folder = Path(subject.need("start", "a model to start from"))
    module = subject.need_module()
    file = folder / WEIGHTS_FILE
    written: dict[str, torch.Tensor]
    if file.is_file() or not has_shards(folder):
        written = read_tensors(file)
    else:
        written = load_weights(folder).state_dict()
    own = dict(module.state_dict())
    missing = sorted(set(own) ^ set(written))
    differs = [
        name
        for name in sorted(set(own) & set(written))
        if not torch.equal(own[name], written[name].to(own[name]))
    ]
    if missing or differs:
        yield Finding(
            "LOAD-MAP/start-differs",
            "stop",
            "load",
            location=f"model: {(differs or missing)[0]}",
            numbers=numbers(
                differs=len(differs),
                missing=len(missing),
                parameters=len(own),
                names=", ".join((differs + missing)[:5]),
            ),
        )


def baseline(subject: Subject) -> Iterator[Finding]:
    """Nats a target of the untouched weights, by the run's own evaluation where there is one, against ln V."""
    subject.need_model()
    loss, targets = _scored(subject)
    chance = math.log(subject.vocab)
    counts = numbers(loss=loss, chance=chance, vocab=subject.vocab, targets=targets)
    if not math.isfinite(loss):
        raise Cannot("the starting weights give no finite loss; the probes before this one say why")
    fresh = subject.declared.freshly_initialised
    if fresh is True and loss < chance - max(GAP, subject.declared.init_loss_gap or 0.0):
        yield _finding("EVAL-VALIDITY/already-good", "stop", counts)
    elif fresh is False and loss > LEARNED * chance:
        yield _finding("LOAD-MAP/knows-nothing", "stop", counts)
    elif fresh is not True and loss < KNOWS_ALL * chance:
        yield _finding("EVAL-VALIDITY/already-solved", "warn", counts)


def _finding(name: str, grade: Any, counts: Any) -> Finding:
    return Finding(name, grade, STAGE, location="evaluation: starting weights", numbers=counts)


def _scored(subject: Subject) -> tuple[float, int]:
    """(nats a target, targets) of validation text where the run has its own evaluation, else of the batches given."""
    score = subject.extra.get("score")
    if score is not None:
        module = subject.need_module()
        with subject.need_model().mode(training=False):
            scores = score(module, subject.extra["scored"], None)
        return float(scores.loss), sum(scores[name].tokens for name in scores)
    subject.need_example()
    view, nats, count = subject.need_model(), 0.0, 0
    for example in subject.examples[:LOOKED_AT]:
        moved = to_device(example, view.device)
        active = int(expected_active(moved, subject.label_offset).sum())
        if not active or (subject.label_offset == 1 and moved.labels is None):
            continue
        with torch.no_grad(), view.mode(training=False):
            nats += reference_nats(subject, moved)
        count += active
    if not count:
        raise Cannot("no batch has an active target")
    return nats / count, count
