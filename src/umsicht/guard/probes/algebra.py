"""T10 on Umsicht's own trainer: one batch, micro-batches of one and uneven ones give the gradient of one mean over all active targets."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import torch

from umsicht.findings import Finding
from umsicht.guard.gradients import Gradients, gradients_of, relative_gap, scale_of
from umsicht.guard.probes.rehearse import Masked, Stage, Trace, stage_of
from umsicht.guard.probes.silent import silent
from umsicht.guard.subject import Subject, numbers, wake
from umsicht.recipe.train import TrainSettings
from umsicht.tokens.batch import IGNORE, Batch


def batch_algebra(subject: Subject) -> Iterator[Finding]:
    """One batch, micro-batches of one, and uneven ones, over a batch whose rows have unequal numbers of targets."""
    stage = stage_of(subject)
    source = Masked(stage.make_source())
    rows = source.batch(0).inputs.shape[0]
    precision = str((stage.machine or {}).get("precision", "float32"))
    limit = 2e-4 if precision == "float32" else 3e-2
    cuts = {"whole": rows, "ones": 1}
    if rows > 2:
        cuts["uneven"] = rows - 1 if rows <= 4 else rows // 2 + 1
    traces: dict[str, Trace] = {}
    for name, micro in cuts.items():
        with silent_models(stage, awake=True) as quiet:
            traces[name] = quiet.trace(
                f"algebra-{name}",
                source=source,
                micro_batch=micro,
                settings=quiet.even(),
                stop_at=1,
                keep_gradient=True,
            )
    with silent_models(stage, awake=True) as quiet:
        want_loss, want = independent(quiet.make_model(), source.batch(0), stage.settings)
    for name, trace in traces.items():
        gap = relative_gap(trace.first_gradient, want)
        factor, cosine = scale_of(trace.first_gradient, want)
        off = abs(trace.losses[0] - want_loss) / max(abs(want_loss), 1e-6)
        counts = numbers(
            gap=gap,
            factor=factor,
            cosine=cosine,
            micro_batches=-(-rows // cuts[name]),
            case=name,
            loss=trace.losses[0],
            reference=want_loss,
            call=1,
        )
        if gap > limit:
            kind = "LOSS-NORM/divisor" if cosine > 0.9999 else "LOSS-NORM/micro-batches"
            if (
                relative_gap(trace.first_gradient, traces["whole"].first_gradient) < limit
                and cosine <= 0.9999
            ):
                kind = "LOSS-NORM/gradient"
            yield Finding(kind, "stop", "batch-algebra", location="training step", numbers=counts)
            return
        if off > limit:
            yield Finding(
                "LOSS-NORM/reported", "stop", "batch-algebra", location="training step", numbers=counts
            )
            return
    yield from _wider(subject, stage, source, limit)


class silent_models:
    """A stage whose models have dropout switched off (and, if asked, no zero-initialised output): sums can be compared then."""

    def __init__(self, stage: Stage, *, awake: bool = False) -> None:
        self.stage = stage
        self.awake = awake
        self.contexts = ExitStack()

    def __enter__(self) -> Stage:
        def make() -> Any:
            model = self.stage.make_model()
            if self.awake:
                wake(model, self.stage.seed)
            self.contexts.enter_context(silent(model))
            return model

        return dataclasses.replace(self.stage, make_model=make)

    def __exit__(self, *_: object) -> None:
        self.contexts.close()


def independent(model: Any, batch: Batch, settings: TrainSettings) -> tuple[float, Gradients]:
    """(mean cross-entropy over active targets, gradient of the declared objective), written down here from the definitions: logits, log-softmax, one sum, one division.

    Declared label smoothing takes its share of the mean over all ids; the z-loss is the squared logarithm of the softmax's denominator.
    """
    count = max(1, int((batch.targets != IGNORE).sum()))
    regular = settings.regularisation
    model.train()
    total = 0.0
    for start in range(0, batch.inputs.shape[0], 8):
        part = batch.slice(start, start + 8)
        apart = {"document_ids": part.document_ids} if settings.document_mask else {}
        logits = model(part.inputs, **apart).float()
        active = logits[part.targets != IGNORE]
        targets = part.targets[part.targets != IGNORE].unsqueeze(-1)
        logarithm = torch.log_softmax(active, dim=-1)
        nats = -logarithm.gather(-1, targets).sum()
        objective = (1 - regular.label_smoothing) * nats - regular.label_smoothing * logarithm.mean(-1).sum()
        objective = objective + regular.z_loss * active.logsumexp(-1).square().sum()
        (objective / count).backward()
        total += float(nats.detach()) / count
    return total, gradients_of(model)


def _wider(subject: Subject, stage: Stage, source: Any, limit: float) -> Iterator[Finding]:
    """Five columns of padding more: the loss of the objective may not move."""
    model = stage.make_model()
    batch = source.batch(0)
    objective = subject.extra.get("objective")
    if objective is None:
        return
    rows = batch.inputs.shape[0]
    columns = 5
    pad = subject.extra.get("pad_id", 0)
    wider = Batch(
        torch.cat([batch.inputs, torch.full((rows, columns), pad, dtype=batch.inputs.dtype)], dim=1),
        torch.cat([batch.targets, torch.full((rows, columns), IGNORE, dtype=batch.targets.dtype)], dim=1),
        torch.cat(
            [batch.document_ids, torch.full((rows, columns), -1, dtype=batch.document_ids.dtype)], dim=1
        ),
        batch.rows,
    )
    wake(model, stage.seed)
    with torch.no_grad(), silent(model):
        plain, more = float(objective(model, batch).nats), float(objective(model, wider).nats)
    if abs(more - plain) > 5 * limit * abs(plain):
        yield Finding(
            "TARGET-MASK/padding-counts",
            "stop",
            "batch-algebra",
            location="loss",
            numbers=numbers(plain=plain, padded=more, columns=columns),
        )
