"""The stability rehearsal: the first steps at the full learning rate, on rows of a quarter of the length."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from umsicht.findings import Finding
from umsicht.guard.probes.rehearse import LossRecorder, fit, stage_of
from umsicht.guard.subject import Cannot, Subject, numbers
from umsicht.recipe.train import ScheduleSettings
from umsicht.tokens.batch import Batch


class Short:
    """A source whose rows are cut to their first quarter: a cheap look at the first steps."""

    def __init__(self, source: Any, length: int) -> None:
        self.source, self.length = source, length

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    @property
    def tokens_per_batch(self) -> int:
        """Targets of a cut batch."""
        return int(self.source.batch(0).inputs.shape[0]) * self.length

    def tokens_at(self, step: int) -> int:
        """Targets of the cut batch of a step."""
        return int(self.source.batch(step).inputs.shape[0]) * self.length

    def _cut(self, batch: Batch) -> Batch:
        n = self.length
        return Batch(
            batch.inputs[:, :n].contiguous(),
            batch.targets[:, :n].contiguous(),
            batch.document_ids[:, :n].contiguous(),
            batch.rows,
        )

    def batch(self, step: int) -> Batch:
        """The cut global batch."""
        return self._cut(self.source.batch(step))

    def micro_batches(self, step: int, rows: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """Cut micro-batches."""
        for part in self.source.micro_batches(step, rows, rank, world):
            yield self._cut(part)


def stability(subject: Subject) -> Iterator[Finding]:
    """Fifty steps on short rows at the full learning rate: does it blow up?"""
    stage = stage_of(subject)
    steps = int(subject.extra.get("stability_steps", 50))
    if steps < 10:
        raise Cannot("no stability rehearsal in a quick check")
    source = stage.make_source()
    length = max(8, source.batch(0).inputs.shape[1] // 4)
    settings = stage.short(
        steps,
        schedule=ScheduleSettings(shape="constant", warmup_share=0.0, warmup_steps=5),
        phases=stage.settings.phases.model_copy(update={"short_sequences": None, "small_batches": None}),
    )
    recorder = LossRecorder()
    trainer = stage.trainer("stability", hooks=[recorder], source=Short(source, length), settings=settings)
    outcome = fit(trainer)
    losses = recorder.losses
    ceiling = math.log(subject.vocab)
    tail = sorted(losses[-10:])[5] if len(losses) >= 10 else math.nan
    worst = max((loss for loss in losses if math.isfinite(loss)), default=math.nan)
    counts = numbers(
        steps=len(losses),
        first=losses[0] if losses else math.nan,
        last=tail,
        worst=worst,
        rate=max(recorder.rates, default=0.0),
    )
    if outcome.reason == "stopped-by-guard" or any(not math.isfinite(loss) for loss in losses):
        yield Finding(
            "NUMERIC/unstable",
            "stop",
            "stability",
            location="training step",
            numbers={**counts, "kind": "not finite"},
        )
    elif tail > max(ceiling + 0.3, losses[0] + 0.1):
        yield Finding(
            "NUMERIC/unstable",
            "stop",
            "stability",
            location="training step",
            numbers={**counts, "kind": "rising"},
        )
    # Trained weights lose a little at first at a full rate: for them only a rise counts. What is still falling at the end learns.
    elif (
        subject.looks_fresh
        and len(losses) >= 30
        and tail > losses[0] - 0.02
        and tail > sorted(losses[-20:-10])[5] - 0.02
    ):
        yield Finding(
            "OPT-WIRING/does-not-learn", "warn", "stability", location="training step", numbers=counts
        )
