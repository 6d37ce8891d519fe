"""A run's material by the ids in its own record: what a rank opens when a launcher has made the data and passed the gate already."""

from __future__ import annotations

from umsicht.findings import UserError
from umsicht.pipeline.run import train_run
from umsicht.pipeline.training import Made, Material
from umsicht.pipeline.walk import Walk
from umsicht.record import Artifact, Run
from umsicht.train import Outcome
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


def train_rank(walk: Walk, run: Run) -> Outcome:
    """One rank's part of the training of `run`."""
    return train_run(material_of(walk, run), run)
