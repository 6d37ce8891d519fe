"""What a stage would do, said before anything is trained: its rows, its steps, its memory, and whether its gate would open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from umsicht.findings import Decision, Finding, Waiver, decide
from umsicht.plan.memory import Memory, predict, weight_bytes
from umsicht.recipe.finetune import StageSettings
from umsicht.record import Run
from umsicht.tokens.batch import BatchSource
from umsicht.train.machine import choose_device, choose_micro_batch

from .base import check_base
from .grpo import ProblemSource
from .material import Material, judge_of, material_of
from .methods import rate_of, steps_of
from .stage import stage_config, train_settings
from .subject import Subject, merged, open_subject

WITH_REFERENCE = ("dpo", "grpo")
"""Methods that ask the model as it was: a copy of it where all weights learn; with adapters the frozen base serves."""


@dataclass(frozen=True)
class Outlook:
    """One stage before it is trained. `targets` are the counts of its rendered rows; `tokens` the positions of all its steps, padding included."""

    stage: str
    method: str
    training_rows: int
    held_out_rows: int
    refused_rows: int
    targets: dict[str, Any]
    lines: list[tuple[str, str]]
    """The same counts in words."""
    rate: float
    steps: int
    tokens: int
    memory: Memory | None
    reference_bytes: int
    """What the model as it was takes beside `memory`."""
    decision: Decision
    findings: list[Finding]

    @property
    def peak_bytes(self) -> int | None:
        """Memory that the training takes beside the program; None where there is nothing to train on."""
        return None if self.memory is None else self.memory.peak + self.reference_bytes

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "stage": self.stage,
            "method": self.method,
            "training_rows": self.training_rows,
            "held_out_rows": self.held_out_rows,
            "refused_rows": self.refused_rows,
            "targets": self.targets,
            "rate": self.rate,
            "steps": self.steps,
            "tokens": self.tokens,
            "peak_bytes": self.peak_bytes,
            "opens": self.decision.open,
            "findings": [finding.to_dict() for finding in self.findings],
        }


def outlook(
    stages: Sequence[StageSettings],
    base: Run,
    *,
    checkpoint: str = "best",
    root: Path = Path(),
    waivers: Sequence[Waiver] = (),
) -> list[Outlook]:
    """All stages on `base`. Nothing is trained, and nothing is written into the record.

    A later stage starts from weights that do not exist yet, but reads the same tokens with the same context, so that its counts hold.
    Raises `UserError` for files that cannot be read, and for settings that do not fit the model.
    """
    subject = open_subject(base, checkpoint)
    fitness = check_base(base, subject.digest)
    made = {stage.title for stage in stages if stage.method == "reward"}
    looked = []
    for number, stage in enumerate(stages):
        # A judge that an earlier stage is yet to make: only whether there is one matters to the counts.
        judge = subject if stage.reward_model in made else judge_of(stage, base, subject)
        material = material_of(stage, subject, root, None if judge is None else merged(judge.model))
        looked.append(_look(stage, subject, material, fitness if number == 0 else [], waivers))
    return looked


def _look(
    stage: StageSettings,
    subject: Subject,
    material: Material,
    fitness: Sequence[Finding],
    waivers: Sequence[Waiver],
) -> Outlook:
    source, refused = material.prepared.source, material.prepared.refused
    config = stage_config(stage, subject)
    steps = memory = None
    reference = 0
    if material.prepared.table.get("examples"):
        steps = steps_of(stage, source)
        memory = _memory(stage, subject, source, steps)
        if stage.method in WITH_REFERENCE and config.lora is None:
            reference = weight_bytes(config)
    findings = [*fitness, *material.broken, *material.findings]
    decision = decide("finetune", [*fitness, *material.findings], waivers)
    if material.broken:
        decision = decide("finetune", material.broken, ())
    return Outlook(
        stage.title,
        stage.method,
        len(material.training),
        len(material.held_out),
        len(material.rows.refused) + len(refused),
        material.prepared.table,
        material.prepared.lines,
        rate_of(stage),
        steps or 0,
        (steps or 0) * source.tokens_per_batch,
        memory,
        reference,
        decision,
        findings,
    )


def _memory(stage: StageSettings, subject: Subject, source: BatchSource, steps: int) -> Memory:
    """Of the micro-batch that the trainer would choose, at the width of the stage's own rows."""
    rows, width = (int(n) for n in source.batch(0).inputs.shape)
    train = train_settings(stage, steps, source.tokens_per_batch)
    at_once = choose_micro_batch(train.micro_batch, rows, width, choose_device(train.device))
    if isinstance(source, ProblemSource):
        at_once, width = source.problems_at_once(at_once) * source.group, width + source.room
    return predict(replace(stage_config(stage, subject), seq_len=width), train, at_once)
