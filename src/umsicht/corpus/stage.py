"""The corpus stage: plan, map, look across partitions, write. Same recipe and same files give the same artifact, whoever does the work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umsicht.corpus.document import DROPPED_SCHEMA, SCHEMA, write_table
from umsicht.corpus.engine import Engine, open_engine
from umsicht.corpus.exact import exact_tasks, find_exact
from umsicht.corpus.findings import findings_of
from umsicht.corpus.finish import FinishTask, finish, save_chosen
from umsicht.corpus.index import index_path
from umsicht.corpus.ledger import STAGES, Ledger
from umsicht.corpus.prepare import PrepareTask, group_units, prepare
from umsicht.corpus.sources import SourcePlan, plan_sources
from umsicht.corpus.split import choose_validation, slice_sizes, target_bytes
from umsicht.corpus.work import Workspace
from umsicht.findings import UserError
from umsicht.recipe.corpus import CorpusSettings
from umsicht.record import QUIET, Artifact, Progress, Store
from umsicht.words import t

STAGE_VERSION = 1
KIND = "corpus"


@dataclass(frozen=True)
class CorpusInputs:
    """What the stage reads besides its settings."""

    store: Store
    root: Path = Path()
    """Folder that relative paths of sources start at: that of the recipe."""
    name: str = KIND


def build(settings: CorpusSettings, inputs: CorpusInputs, *, progress: Progress = QUIET) -> Artifact:
    """Make the corpus artifact, or return the one that exists.

    Raises UserError for a source that is absent, changes while it is read, or yields nothing.
    """
    plan = plan_sources(settings, inputs.root)
    for package in plan.missing_packages:
        progress.note(t("corpus.missing_package", package=package))
    plain = {key: value for key, value in settings.plain().items() if key != "engine"}
    digests = plan.digests()
    identity = inputs.store.identity(KIND, stage_version=STAGE_VERSION, settings=plain, inputs=digests)
    work = Workspace(inputs.store.root, inputs.name, identity)

    def make(folder: Path) -> dict[str, Any]:
        with open_engine(settings.engine, plan.bytes) as engine:
            return _Build(settings, plan, work, engine, progress).run(folder)

    artifact = inputs.store.build(
        KIND, inputs.name, stage_version=STAGE_VERSION, settings=plain, inputs=digests, make=make
    )
    work.remove()
    return artifact


class _Build:
    """One build in progress: the order of the stages, and what one hands to the next."""

    def __init__(
        self, settings: CorpusSettings, plan: SourcePlan, work: Workspace, engine: Engine, progress: Progress
    ) -> None:
        self.settings = settings
        self.plan = plan
        self.work = work
        self.engine = engine
        self.progress = progress
        self.ledger = Ledger()
        self.parts: list[dict[str, Any]] = []
        self.indexes: list[Path] = []
        self.prepared: list[dict[str, Any]] = []

    def run(self, folder: Path) -> dict[str, Any]:
        """All stages, then the files into the artifact's folder; returns the report."""
        self._prepare()
        chosen = choose_validation(self.parts, self.indexes, self.settings.validation)
        save_chosen(chosen, self.work.folder / "validation.npy")
        exact = self._exact()
        finished = self._finish(exact)
        self._move(finished, folder)
        return self._report(finished)

    def _prepare(self) -> None:
        settings, folder = self.settings, self.work.stage("read")
        groups = list(group_units(self.plan.units, settings.partition_bytes))
        tasks = [
            PrepareTask(
                number,
                group,
                str(folder),
                settings.normalise,
                settings.min_document_bytes,
                settings.max_document_bytes,
                settings.partition_bytes,
            )
            for number, group in enumerate(groups)
        ]
        sizes = [sum(unit.bytes for unit in group) / 1e6 for group in groups]
        self.prepared = self.work.run(
            self.engine, "read", prepare, tasks, self.progress, t("corpus.stage.read"), sizes
        )
        for result in self.prepared:
            self.ledger.merge(result["ledger"])
            self.parts += result["parts"]
        self.indexes = [index_path(folder, part["key"]) for part in self.parts]
        for source in self.plan.sources:
            if not self.ledger.get(source.name, "normalise")[0]:
                raise self._empty(source.name)

    def _empty(self, source: str) -> UserError:
        reasons = [
            f"{reason}: {n}"
            for result in self.prepared
            for name, reason, n in result["broken"]
            if name == source
        ]
        return UserError(
            t("corpus.empty.what", source=source),
            where=f"corpus.sources.{source}",
            why="; ".join(reasons) or t("corpus.empty.why"),
            fix=t("corpus.empty.fix"),
        )

    def _exact(self) -> list[str]:
        rows = sum(part["rows"] for part in self.parts)
        memory = self.settings.engine.memory_bytes // 4
        tasks = exact_tasks(self.indexes, rows, memory, self.work.stage("exact"))
        found = self.work.run(self.engine, "exact", find_exact, tasks, self.progress, t("corpus.stage.exact"))
        return [result["file"] for result in found]

    def _finish(self, exact: Sequence[str]) -> list[dict[str, Any]]:
        folder = self.work.stage("write")
        tasks = [
            FinishTask(
                number,
                part["key"],
                tuple(part["slices"]),
                str(index.with_name(f"{part['key']}.parquet")),
                str(index),
                tuple(exact),
                str(self.work.folder / "validation.npy"),
                str(folder),
            )
            for number, (part, index) in enumerate(zip(self.parts, self.indexes, strict=True))
        ]
        sizes = [part["bytes"] / 1e6 for part in self.parts]
        finished = self.work.run(
            self.engine, "write", finish, tasks, self.progress, t("corpus.stage.write"), sizes
        )
        for result in finished:
            self.ledger.merge(result["ledger"])
        return finished

    def _move(self, finished: Sequence[dict[str, Any]], folder: Path) -> None:
        read, write = self.work.stage("read"), self.work.stage("write")
        dropped = [read / result["dropped"] for result in self.prepared if result["dropped"]]
        files = {
            split: [write / result["files"][split] for result in finished if result["files"][split]]
            for split in ("train", "val", "dropped")
        }
        files["dropped"] = dropped + files["dropped"]
        for split, paths in files.items():
            target = folder / split
            target.mkdir()
            for number, path in enumerate(paths):
                (target / f"part-{number:05d}.parquet").hardlink_to(path)
            if not paths:
                schema = DROPPED_SCHEMA if split == "dropped" else SCHEMA
                write_table(schema.empty_table(), target / "part-00000.parquet")

    def _report(self, finished: Sequence[dict[str, Any]]) -> dict[str, Any]:
        slices: dict[str, dict[str, dict[str, int]]] = {}
        for result in finished:
            for name, splits in result["slices"].items():
                for split, (documents, size) in splits.items():
                    entry = slices.setdefault(name, {}).setdefault(split, {"documents": 0, "bytes": 0})
                    entry["documents"] += documents
                    entry["bytes"] += size
        broken: dict[str, dict[str, int]] = {}
        for result in self.prepared:
            for source, reason, n in result["broken"]:
                counts = broken.setdefault(source, {})
                counts[reason] = counts.get(reason, 0) + n
        encodings: Counter[str] = Counter()
        for result in self.prepared:
            encodings.update(result["encodings"])
        sizes = slice_sizes(self.parts, self.indexes)
        report: dict[str, Any] = {
            "schema": 1,
            "stages": [*STAGES, "train"],
            "sources": {
                source.name: {
                    "domain": source.domain,
                    "language": source.language,
                    "licence": source.licence,
                    "package": source.package,
                    "version": source.version,
                    "stages": self.ledger.stages(source.name, (*STAGES, "train")),
                }
                for source in self.plan.sources
            },
            "slices": dict(sorted(slices.items())),
            "validation_target_bytes": {
                name: target_bytes(size, self.settings.validation) for name, size in sizes.items()
            },
            "broken": broken,
            "broken_examples": [row for result in self.prepared for row in result["broken_shown"]][:200],
            "encodings": dict(encodings),
            "missing_packages": list(self.plan.missing_packages),
            "unread_files": list(self.plan.unread[:200]),
            "n_unread_files": len(self.plan.unread),
            "disk_bytes": self.plan.bytes,
        }
        report["findings"] = [finding.to_dict() for finding in findings_of(report)]
        return report
