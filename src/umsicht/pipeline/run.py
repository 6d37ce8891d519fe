"""`umsicht run`: the whole walk. Every step is skipped where its result exists; killed anywhere, the same call goes on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from umsicht.diagnose import Diagnosis
from umsicht.diagnose.experiment import lineage_of
from umsicht.evaluate import Evaluation
from umsicht.finetune import StageResult
from umsicht.pipeline import after, checks, planning, stages, tuning
from umsicht.pipeline.training import Made, Material, open_run, sample_hook, train
from umsicht.pipeline.walk import Walk
from umsicht.record import QUIET, Run
from umsicht.train import Every, Outcome
from umsicht.train.machine import choose_device
from umsicht.train.ranks import Ranks, join
from umsicht.train.silent import SilentRun
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


def prepare(walk: Walk) -> Material:
    """The data half: corpus, tokenizer, tokens, baselines."""
    made_corpus = stages.corpus(walk)
    vocabulary = stages.tokenizer(walk, made_corpus)
    ids = stages.tokens(walk, made_corpus, vocabulary)
    return Material(walk, Made(made_corpus, vocabulary, ids, stages.baselines(walk, made_corpus, vocabulary)))


def run(walk: Walk) -> Finished:
    """Run a recipe to the end. Raises GateClosedError where a gate stays shut, UserError for bad input."""
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


def record_findings(walk: Walk, record: Run) -> None:
    """Write what was found before the training into its record, once."""
    if record.manifest.get("findings_recorded"):
        return
    for finding in walk.findings:
        record.add_finding({**finding.to_dict(), "step": 0})
    record.update_manifest(findings_recorded=True)


def train_run(material: Material, record: Run) -> Outcome:
    """The training of a run, with everything that hangs on it: validation, samples, monitors. Where there are other ranks, each calls this."""
    walk = material.walk
    ranks = joined(walk)
    if not ranks.is_first:
        record = SilentRun.of(record)
    record_findings(walk, record)
    steps = material.planned_steps()
    every = (
        Every(seconds=60.0)
        if steps is None
        else Every(steps=max(1, steps // walk.recipe.evaluate.samples.count))
    )
    return train(material, record, [*checks.hooks(material, record), sample_hook(material, every)], ranks)


def joined(walk: Walk) -> Ranks:
    """The processes of this job, met; all but the first are quiet from here on."""
    ranks = join(walk.recipe.parallel.timeout_s, choose_device(walk.recipe.train.device))
    if not ranks.is_first:
        walk.progress = QUIET
    return ranks


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
