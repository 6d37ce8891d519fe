"""One build in progress: the order of the stages, and what one hands to the next. Nothing here holds texts; they stay in partitions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from umsicht.corpus import examples
from umsicht.corpus import lines as line_stage
from umsicht.corpus.carry import Names
from umsicht.corpus.document import DROPPED_SCHEMA, SCHEMA, write_table
from umsicht.corpus.engine import Engine, share_of
from umsicht.corpus.exact import exact_tasks, find_exact
from umsicht.corpus.finish import FinishTask, finish
from umsicht.corpus.independence import (
    LARGEST_OVERLAP,
    OverlapTask,
    RunsTask,
    find_overlap,
    overlap_of,
    part_ways,
    validation_runs,
)
from umsicht.corpus.index import DROP, index_path, open_rows, save_array, shingles_path, sketch_path
from umsicht.corpus.ledger import Ledger
from umsicht.corpus.near import NearJob, NearResult, find_near
from umsicht.corpus.near.tasks import GONE, STAYS, VALIDATION, SpanFile
from umsicht.corpus.pieces import lines_path, paragraph_sketches, paragraphs_path
from umsicht.corpus.prepare import PrepareTask, group_units, prepare
from umsicht.corpus.protect import fingerprint
from umsicht.corpus.protected_sets import Protected
from umsicht.corpus.report import make_report
from umsicht.corpus.sources import SourcePlan
from umsicht.corpus.split import choose_validation, is_chosen
from umsicht.corpus.work import Workspace
from umsicht.findings import UserError
from umsicht.recipe.corpus import CorpusSettings
from umsicht.record import Progress
from umsicht.words import t


class Flow:
    """All stages of one build over one work folder."""

    def __init__(
        self,
        settings: CorpusSettings,
        plan: SourcePlan,
        protected: Protected,
        work: Workspace,
        engine: Engine,
        progress: Progress,
    ) -> None:
        self.settings, self.plan, self.protected = settings, plan, protected
        self.work, self.engine, self.progress = work, engine, progress
        self.ledger = Ledger()
        self.parts: list[dict[str, Any]] = []
        self.prepared: list[dict[str, Any]] = []
        self.notes: dict[str, Any] = {}
        self.left: list[Path] = []

    def run(self, folder: Path) -> dict[str, Any]:
        """All stages, then the files into the artifact's folder; returns the report."""
        self._protect()
        self.prepare()
        exact = self._exact()
        self._state(exact)
        near = self._near()
        boilerplate = self._lines()
        spans, paragraphs = self._paragraphs()
        finished = self._independent(self._finish(exact, near, boilerplate, spans, paragraphs))
        self._move(finished, folder)
        return make_report(
            self.settings,
            self.plan,
            self.prepared,
            finished,
            self.ledger,
            self.parts,
            self.indexes,
            self.notes,
        )

    def _protect(self) -> None:
        """Fingerprints come first: what must not be trained on is known before a document is read."""
        if self.protected.sets and not self._protected_file.exists():
            known = fingerprint(self.protected.pieces())
            known.save(self._protected_file)
            self.notes["unusable_pieces"] = known.unusable

    @property
    def _protected_file(self) -> Path:
        return self.work.folder / "protected.npz"

    def prepare(self, only: tuple[int, int] | None = None) -> None:
        """Read, normalise and label; with `only` = (k, n) just this share of the tasks, for a job array."""
        settings, folder = self.settings, self.work.stage("read")
        groups = list(group_units(self.plan.units, settings.partition_bytes))
        tasks = [PrepareTask.of(number, group, folder, settings) for number, group in enumerate(groups)]
        sizes = [sum(unit.bytes for unit in group) / 1e6 for group in groups]
        if only is not None:
            mine = [number for number in range(len(tasks)) if number % only[1] == only[0] - 1]
            self.work.run(
                self.engine, "read", prepare, tasks, self.progress, t("corpus.stage.read"), sizes, mine
            )
            return
        self.prepared = self.work.run(
            self.engine, "read", prepare, tasks, self.progress, t("corpus.stage.read"), sizes
        )
        for result in self.prepared:
            self.ledger.merge(result["ledger"])
            self.parts += result["parts"]
        self.indexes = [index_path(folder, part["key"]) for part in self.parts]
        self.tables = [folder / f"{part['key']}.arrow" for part in self.parts]
        self.counts = [int(part["rows"]) for part in self.parts]
        self.offsets = tuple(int(n) for n in np.concatenate([[0], np.cumsum(self.counts)])[:-1])
        self.source_names = [source.name for source in self.plan.sources]
        for source in self.source_names:
            if not self.ledger.get(source, "normalise")[0]:
                raise self._empty(source)
        if not self.parts:
            raise self._empty(self.source_names[0])

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

    def _sources_of(self, part: dict[str, Any]) -> tuple[int, ...]:
        return tuple(self.source_names.index(name) for name in part["sources"])

    def _exact(self) -> list[str]:
        memory = share_of(self.settings.engine.memory_bytes, self.engine.workers)
        tasks = exact_tasks(self.indexes, sum(self.counts), memory, self.work.stage("exact"))
        found = self.work.run(self.engine, "exact", find_exact, tasks, self.progress, t("corpus.stage.exact"))
        return [result["file"] for result in found]

    def _state(self, exact: Sequence[str]) -> None:
        """One byte a document: stays, validation, or gone as an exact duplicate."""
        chosen = choose_validation(self.parts, self.indexes, self.settings.validation)
        pairs = [pairs for pairs in chosen.values() if len(pairs)]
        picked = {"": np.concatenate(pairs)} if pairs else {}
        state = np.full(sum(self.counts), STAYS, np.uint8)
        for offset, path in zip(self.offsets, self.indexes, strict=True):
            rows = open_rows(path)
            state[offset : offset + len(rows)][is_chosen(rows, (), picked)] = VALIDATION
        offsets = np.array(self.offsets)
        for name in exact:
            drops = open_rows(Path(name))
            state[offsets[drops["part"]] + drops["row"]] = GONE
        self.state = state

    def _near(self) -> str:
        near = self.settings.dedupe.near
        if not near.enabled:
            self._save_state(self.work.folder)
            return ""
        found = find_near(
            NearJob(
                "near",
                [
                    SpanFile(str(table), sketches=self._sketches(part))
                    for table, part in zip(self.tables, self.parts, strict=True)
                ],
                self.counts,
                self._save_state(self.work.stage("near")),
                words=near.words,
                jaccard=near.jaccard,
                containment=near.containment,
                memory_bytes=self.settings.engine.memory_bytes,
            ),
            self.work,
            self.engine,
            self.progress,
            t("corpus.stage.near"),
        )
        drops = self._capped(found)
        self.state[drops["later"]] = GONE
        path = self.work.stage("near") / "drops.npy"
        np.save(path, drops)
        self.notes["near"] = {
            "candidates": found.candidates,
            "likely": found.likely,
            "verified": found.verified,
            "dropped": len(drops),
        }
        self.notes["clusters"] = examples.clusters(drops, Names(tuple(map(str, self.indexes)), self.offsets))
        self._save_state(self.work.folder)
        return str(path)

    def _sketches(self, part: dict[str, Any]) -> tuple[str, str]:
        folder, key = self.work.stage("read"), part["key"]
        return _as_text((sketch_path(folder, key), shingles_path(folder, key)))

    def _save_state(self, folder: Path) -> Path:
        return save_array(folder / "state.npy", self.state)

    def _capped(self, found: NearResult) -> npt.NDArray[Any]:
        """No source loses more than its largest share; the most alike go first. What stood against validation always goes."""
        drops = found.drops
        sources = np.empty(len(self.state), np.uint16)
        for part, offset, path in zip(self.parts, self.offsets, self.indexes, strict=True):
            rows = open_rows(path)
            sources[offset : offset + len(rows)] = np.array(self._sources_of(part), np.uint16)[rows["source"]]
        left = np.bincount(sources[self.state != GONE], minlength=len(self.source_names))
        keep = np.ones(len(drops), bool)
        capped = {}
        for number, name in enumerate(self.source_names):
            mine = np.flatnonzero(sources[drops["later"]] == number)
            free = mine[self.state[drops["earlier"][mine]] != VALIDATION]
            allowed = int(left[number] * self.settings.dedupe.near.largest_share)
            if len(free) > allowed:
                order = np.argsort(-drops["score"][free], kind="stable")
                keep[free[order[allowed:]]] = False
                capped[name] = {
                    "found": len(mine),
                    "documents": int(left[number]),
                    "kept": len(free) - allowed,
                }
        self.notes["near_capped"] = capped
        return drops[keep]

    def _lines(self) -> list[str]:
        settings = self.settings.dedupe.lines
        if not settings.enabled:
            return []
        read, folder = self.work.stage("read"), self.work.stage("lines")
        tasks = [
            line_stage.LinesTask(
                number,
                str(lines_path(read, part["key"])),
                str(index),
                self._sources_of(part),
                str(self.work.folder / "state.npy"),
                offset,
                str(folder / f"{part['key']}.lines.npy"),
            )
            for number, (part, index, offset) in enumerate(
                zip(self.parts, self.indexes, self.offsets, strict=True)
            )
        ]
        counted = self.work.run(
            self.engine, "lines", line_stage.count_lines, tasks, self.progress, t("corpus.stage.lines")
        )
        needed = [
            line_stage.needed_documents(self.ledger.get(name, "normalise")[0], settings)
            for name in self.source_names
        ]
        merges = line_stage.merge_tasks(
            [result["file"] for result in counted],
            sum(result["lines"] for result in counted),
            needed,
            share_of(self.settings.engine.memory_bytes, self.engine.workers),
            folder,
        )
        merged = self.work.run(
            self.engine, "lines-merge", line_stage.merge_lines, merges, self.progress, t("corpus.stage.lines")
        )
        tops = line_stage.top_lines([np.load(result["top"]) for result in merged])
        self.notes["top_lines"] = examples.top_lines(tops, self.source_names, self.tables)
        return [result["file"] for result in merged]

    def _paragraphs(self) -> tuple[list[str], str]:
        settings, near = self.settings.dedupe.paragraphs, self.settings.dedupe.near
        if not settings.enabled:
            return [""] * len(self.parts), ""
        read, folder = self.work.stage("read"), self.work.stage("paragraphs")
        spans = [str(paragraphs_path(read, part["key"])) for part in self.parts]
        counts = [int(part["paragraphs"]) for part in self.parts]
        state, documents = self._paragraph_files(spans, counts, folder)
        texts = [
            SpanFile(str(table), path, _as_text(paragraph_sketches(read, part["key"])))
            for table, path, part in zip(self.tables, spans, self.parts, strict=True)
        ]
        job = NearJob(
            "paragraph",
            texts,
            counts,
            state,
            documents,
            near.words,
            near.jaccard,
            near.containment,
            self.settings.engine.memory_bytes,
            settings.min_shingles,
        )
        result = find_near(job, self.work, self.engine, self.progress, t("corpus.stage.paragraphs"))
        starts = np.concatenate([[0], np.cumsum(counts)])
        drops = np.empty(len(result.drops), DROP)
        part = np.searchsorted(starts, result.drops["later"], "right") - 1
        drops["part"], drops["row"] = part, result.drops["later"] - starts[part]
        kept = np.load(documents, mmap_mode="r")[result.drops["earlier"]]
        kept_part = np.searchsorted(np.array(self.offsets), kept, "right") - 1
        drops["kept_part"], drops["kept_row"] = kept_part, kept - np.array(self.offsets)[kept_part]
        drops["score"] = result.drops["score"]
        drops.sort(order=["part", "row"])
        path = folder / "drops.npy"
        np.save(path, drops)
        compared = int((np.load(state, mmap_mode="r") != GONE).sum())
        self.notes["paragraphs"] = {"compared": compared, "cut": len(drops), "verified": result.verified}
        return spans, str(path)

    def _paragraph_files(
        self, spans: Sequence[str], counts: Sequence[int], folder: Path
    ) -> tuple[Path, Path]:
        """Files of every paragraph's state and document. They grow with the corpus, so this process lets go of them before the search starts."""
        paths = folder / "state.npy", folder / "documents.npy"
        state, documents = (
            np.lib.format.open_memmap(path, "w+", kind, (sum(counts),))
            for path, kind in zip(paths, (np.uint8, np.uint32), strict=True)
        )
        first = 0
        for name, offset, count in zip(spans, self.offsets, counts, strict=True):
            mine = open_rows(Path(name))["row"] + np.uint32(offset)
            documents[first : first + count] = mine
            state[first : first + count] = self.state[mine]
            first += count
        return paths

    def _finish(
        self,
        exact: Sequence[str],
        near: str,
        boilerplate: Sequence[str],
        spans: Sequence[str],
        paragraphs: str,
    ) -> list[dict[str, Any]]:
        read, folder = self.work.stage("read"), self.work.stage("write")
        names = Names(tuple(map(str, self.indexes)), self.offsets)
        tasks = [
            FinishTask(
                number,
                part["key"],
                tuple(part["slices"]),
                self._sources_of(part),
                str(table),
                str(self.work.folder / "state.npy"),
                names,
                tuple(exact),
                near,
                tuple(boilerplate),
                str(lines_path(read, part["key"])),
                spans[number],
                paragraphs,
                str(self._protected_file) if self.protected.sets else "",
                self.protected.works,
                self.settings.min_document_bytes,
                str(folder),
            )
            for number, (part, table) in enumerate(zip(self.parts, self.tables, strict=True))
        ]
        sizes = [part["bytes"] / 1e6 for part in self.parts]
        finished = self.work.run(
            self.engine, "write", finish, tasks, self.progress, t("corpus.stage.write"), sizes
        )
        for result in finished:
            self.ledger.merge(result["ledger"])
        return finished

    def _independent(self, finished: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Take validation documents out that training knows piece by piece."""
        write, folder = self.work.stage("write"), self.work.stage("overlap")
        holders = [result for result in finished if result["files"]["val"]]
        if not holders:
            return finished
        files = tuple(str(write / result["files"]["val"]) for result in holders)
        known = self.work.run(
            self.engine,
            "validation-runs",
            validation_runs,
            [RunsTask(files, str(folder))],
            self.progress,
            t("corpus.stage.overlap"),
        )
        tasks = [
            OverlapTask(
                str(table),
                str(write / result["training"]),
                str(folder / "table.npz"),
                str(folder / f"{result['files']['train']}.npy"),
            )
            for table, result in zip(self.tables, finished, strict=True)
            if result["files"]["train"]
        ]
        found = self.work.run(
            self.engine, "overlap", find_overlap, tasks, self.progress, t("corpus.stage.overlap")
        )
        overlap = overlap_of(folder, known[0]["documents"], [result["file"] for result in found])
        first = 0
        for result in holders:
            path = write / result["files"]["val"]
            mine = overlap[first : first + pq.ParquetFile(path).metadata.num_rows]
            first += len(mine)
            if (mine > LARGEST_OVERLAP).any():
                self._leave(result, pq.read_table(path), mine, folder)
        return finished

    def _leave(
        self, result: dict[str, Any], table: pa.Table, overlap: npt.NDArray[np.float64], folder: Path
    ) -> None:
        name = result["files"]["val"]
        gone = folder / f"{name}.gone.parquet"
        stays = part_ways(table, overlap, folder / name, gone)
        result["files"]["val"] = f"../overlap/{name}" if stays.any() else ""
        self.left.append(gone)
        result["reasons"].append(["train", "overlaps-training", int((~stays).sum())])
        for row in table.select(["domain", "language", "bytes"]).filter(pa.array(~stays)).to_pylist():
            entry = result["slices"][f"{row['domain']}.{row['language']}"]
            entry["val"] = [entry["val"][0] - 1, entry["val"][1] - row["bytes"]]
            if not entry["val"][0]:
                del entry["val"]

    def _move(self, finished: Sequence[dict[str, Any]], folder: Path) -> None:
        read, write = self.work.stage("read"), self.work.stage("write")
        dropped = [read / result["dropped"] for result in self.prepared if result["dropped"]]
        files = {
            split: [write / result["files"][split] for result in finished if result["files"][split]]
            for split in ("train", "val", "dropped")
        }
        files["dropped"] = dropped + files["dropped"] + self.left
        for split, paths in files.items():
            target = folder / split
            target.mkdir()
            for number, path in enumerate(paths):
                (target / f"part-{number:05d}.parquet").hardlink_to(path)
            if not paths:
                schema = DROPPED_SCHEMA if split == "dropped" else SCHEMA
                write_table(schema.empty_table(), target / "part-00000.parquet")


def _as_text(paths: tuple[Path, Path]) -> tuple[str, str]:
    return str(paths[0]), str(paths[1])
