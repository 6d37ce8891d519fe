"""`umsicht run`: the whole walk. Every step is skipped where its result exists; killed anywhere, the same call goes on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from umsicht.diagnose import Diagnosis
from umsicht.diagnose.experiment import lineage_of
from umsicht.evaluate import Evaluation
from umsicht.findings import UserError
from umsicht.finetune import StageResult
from umsicht.pipeline import after, checks, planning, stages, tuning
from umsicht.pipeline.ranks import joined, train_run
from umsicht.pipeline.training import Made, Material, open_run
from umsicht.pipeline.walk import Walk
from umsicht.record import Run
from umsicht.train import Outcome
from umsicht.train.ranks import expected
from umsicht.words import t


@dataclass(frozen=True)
class Finished:
    """What a walk leaves behind."""

    run: Run
    outcome: Outcome
    evaluation: Evaluation | None = None
    diagnosis: Diagnosis | None = None
    report: Path | None = None
    stages: tuple[StageResult, ...] = ()

    @property
    def last(self) -> Outcome:
        """How its last training ended: the run's own, or that of the last fine-tuning stage."""
        return self.stages[-1].outcome if self.stages else self.outcome


def prepare(walk: Walk) -> Material:
    """The data half: corpus, tokenizer, tokens, baselines."""
    made_corpus = stages.corpus(walk)
    vocabulary = stages.tokenizer(walk, made_corpus)
    ids = stages.tokens(walk, made_corpus, vocabulary)
    return Material(walk, Made(made_corpus, vocabulary, ids, stages.baselines(walk, made_corpus, vocabulary)))


def run(walk: Walk) -> Finished:
    """Run a recipe to the end, in one process. Raises GateClosedError where a gate stays shut, UserError for bad input."""
    if expected() > 1:
        raise UserError(t("train.run_is_one_process"), fix=t("train.run_is_one_process_fix"))
    material = prepare(walk)
    planned = planning.plan(material)
    checks.gate(material)
    lineage = lineage_of(walk.project.folder, walk.recipe.plain())
    foreseen = planning.foreseen(planned)
    record = open_run(material, extra={**checks.record_of(walk), **lineage, **foreseen})
    outcome = train_run(material, record)
    if outcome.reason in ("interrupted", "stopped-by-guard"):
        return Finished(record, outcome)
    return finish(walk, record, outcome)


def prepared(walk: Walk) -> tuple[Material, Run]:
    """Data, gate and an open run; rank 0 makes them while the others wait. Raises GateClosedError where a gate stays shut."""

    def work() -> tuple[Material, Run]:
        material = prepare(walk)
        checks.gate(material)
        return material, open_run(material, extra=checks.record_of(walk))

    found: tuple[Material, Run] = joined(walk).after_first(work)
    return found


def finish(walk: Walk, record: Run, outcome: Outcome) -> Finished:
    """Score, judge, report: each kept in the run's folder."""
    evaluation = after.evaluate(record, walk.progress)
    diagnosis = after.judge(record)
    walk.progress.stage(t("pipeline.reporting"))
    report = after.write_report(record)
    walk.progress.close()
    tuned = tuning.finetune(walk, record)
    return Finished(record, outcome, evaluation, diagnosis, report, tuple(tuned))
