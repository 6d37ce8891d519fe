"""The corpus stage. Same recipe and same files give the same artifact, whoever does the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umsicht.corpus.context import Context
from umsicht.corpus.engine import open_engine
from umsicht.corpus.label.batch import check_filters
from umsicht.corpus.protected_sets import Protected, plan_protected
from umsicht.corpus.sources import SourcePlan, plan_sources
from umsicht.corpus.work import Workspace
from umsicht.findings import UserError
from umsicht.recipe.corpus import CorpusSettings
from umsicht.record import QUIET, Artifact, Progress, Store
from umsicht.words import t

STAGE_VERSION = 9
KIND = "corpus"


@dataclass(frozen=True)
class CorpusInputs:
    """What the stage reads besides its settings."""

    store: Store
    root: Path = Path()
    """Folder that relative paths of sources start at: that of the recipe."""
    name: str = KIND


@dataclass(frozen=True)
class _Planned:
    plan: SourcePlan
    protected: Protected
    settings: dict[str, Any]
    digests: dict[str, str]
    identity: str


def _plan(settings: CorpusSettings, inputs: CorpusInputs, progress: Progress) -> _Planned:
    for filters in (settings.filter, *(source.filter for source in settings.sources if source.filter)):
        check_filters(filters)
    plan = plan_sources(settings, inputs.root)
    protected = plan_protected(settings.protect, inputs.root)
    for package in plan.missing_packages:
        progress.note(t("corpus.missing_package", package=package))
    plain = {key: value for key, value in settings.plain().items() if key != "engine"}
    digests = {**plan.digests(), **protected.digests()}
    identity = inputs.store.identity(KIND, stage_version=STAGE_VERSION, settings=plain, inputs=digests)
    return _Planned(plan, protected, plain, digests, identity)


def build(settings: CorpusSettings, inputs: CorpusInputs, *, progress: Progress = QUIET) -> Artifact:
    """Make the corpus artifact, or return the one that exists.

    Raises UserError for a source that is absent, changes while it is read, or yields nothing.
    """
    planned = _plan(settings, inputs, progress)
    found = inputs.store.find(KIND, planned.identity)
    if found is not None:
        return found
    work = Workspace(inputs.store.root, inputs.name, planned.identity)

    def make(folder: Path) -> dict[str, Any]:
        from umsicht.corpus.flow import run

        with _context(settings, planned, work, progress) as context:
            return run(context, folder)

    artifact = inputs.store.build(
        KIND,
        inputs.name,
        stage_version=STAGE_VERSION,
        settings=planned.settings,
        inputs=planned.digests,
        make=make,
    )
    work.remove()
    return artifact


def build_share(
    settings: CorpusSettings, inputs: CorpusInputs, share: tuple[int, int], *, progress: Progress = QUIET
) -> Path:
    """Do share k of n of the reading stage and leave its partitions in the work folder: for a plain job array.

    When all shares are there, `build` goes on from them. Raises UserError where k is not within 1…n.
    """
    k, n = share
    if not 1 <= k <= n:
        raise UserError(t("corpus.share.what", k=k, n=n), where="--partition", fix=t("corpus.share.fix"))
    planned = _plan(settings, inputs, progress)
    work = Workspace(inputs.store.root, inputs.name, planned.identity)
    from umsicht.corpus.read import run_tasks

    with _context(settings, planned, work, progress) as context:
        run_tasks(context, share)
    return work.folder


@contextmanager
def _context(
    settings: CorpusSettings, planned: _Planned, work: Workspace, progress: Progress
) -> Iterator[Context]:
    with open_engine(settings.engine, planned.plan.bytes) as engine:
        yield Context(settings, planned.plan, planned.protected, work, engine, progress)
