"""The training of a run in each of its ranks. Nothing here knows how data are made: a rank that a launcher starts again must be there soon."""

from __future__ import annotations

from contextlib import nullcontext

from umsicht.findings import UserError
from umsicht.pipeline import after_stop, checks
from umsicht.pipeline.training import Made, Material, sample_hook, train
from umsicht.pipeline.walk import Walk
from umsicht.record import QUIET, Artifact, Run
from umsicht.survive.supervisor import only_writer
from umsicht.train import Every, Outcome
from umsicht.train.machine import choose_device
from umsicht.train.ranks import Ranks, join, leave
from umsicht.train.silent import SilentRun
from umsicht.words import t

KINDS = ("corpus", "tokenizer", "tokens", "baselines")


def material_of(walk: Walk, run: Run) -> Material:
    """The artifacts that `run` rests on. Raises UserError where one of them is gone."""
    return Material(walk, Made(**{kind: _input(walk, run, kind) for kind in KINDS}))


def _input(walk: Walk, run: Run, kind: str) -> Artifact:
    identity = str(run.manifest.get("inputs", {}).get(kind, ""))
    found = walk.project.store.find(kind, identity)
    if found is None:
        raise UserError(
            t("survive.input_gone", kind=kind, id=identity[:12]),
            where=str(run.folder),
            fix=t("survive.input_gone_fix"),
        )
    return found


def record_findings(walk: Walk, record: Run) -> None:
    """Write what was found before the training into its record, once."""
    if record.manifest.get("findings_recorded"):
        return
    for finding in walk.findings:
        record.add_finding({**finding.to_dict(), "step": 0})
    record.update_manifest(findings_recorded=True)


def samples_while_training(material: Material) -> Every | None:
    """How often outputs are drawn during the run. None where the recipe says 0: the evaluation at the end draws its own."""
    steps, count = material.planned_steps(), material.walk.recipe.evaluate.samples.count
    if not count:
        return None
    return Every(seconds=60.0) if steps is None else Every(steps=max(1, steps // count))


def train_run(material: Material, record: Run) -> Outcome:
    """The training of a run, with everything that hangs on it: validation, samples, monitors. Where there are other ranks, each calls this."""
    walk = material.walk
    after_stop.require_acknowledgement(record, walk.acknowledged)
    ranks = joined(walk)
    if not ranks.is_first:
        record = SilentRun.of(record)
    record_findings(walk, record)
    every = samples_while_training(material)
    outputs = [sample_hook(material, every)] if every else []

    def attempt() -> Outcome:
        return train(material, record, [*checks.hooks(material, record), *outputs], ranks)

    with only_writer(record.folder) if ranks.is_first else nullcontext():
        outcome = attempt()
        # With several ranks a rewind would have to be agreed on; there it is a stop.
        while (
            ranks.world == 1 and outcome.reason == "stopped-by-guard" and after_stop.rewind(record, outcome)
        ):
            outcome = attempt()
    return outcome


def joined(walk: Walk) -> Ranks:
    """The processes of this job, met; all but the first are quiet from here on."""
    ranks = join(walk.recipe.parallel.timeout_s, choose_device(walk.recipe.train.device))
    if not ranks.is_first:
        walk.progress = QUIET
    return ranks


def train_rank(walk: Walk, run: Run) -> Outcome:
    """One rank's part of the training of `run`, when a launcher has made the data and passed the gate already."""
    outcome = train_run(material_of(walk, run), run)
    leave()
    return outcome
