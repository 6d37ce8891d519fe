"""What the stages of one build share. Nothing here holds texts; they stay in partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from umsicht.corpus.engine import Engine, share_of
from umsicht.corpus.index import Rows, index_path, open_rows
from umsicht.corpus.ledger import Ledger
from umsicht.corpus.listing import Listing, save_listing
from umsicht.corpus.protected_sets import Protected
from umsicht.corpus.sources import SourcePlan
from umsicht.corpus.work import Result, Workspace
from umsicht.recipe.corpus import CorpusSettings
from umsicht.record import Progress

Task = TypeVar("Task")


@dataclass(frozen=True)
class Context:
    """Who works, where, on what; and what the report will tell of it."""

    settings: CorpusSettings
    plan: SourcePlan
    protected: Protected
    work: Workspace
    engine: Engine
    progress: Progress
    ledger: Ledger = field(default_factory=Ledger)
    notes: dict[str, Any] = field(default_factory=dict)
    """Parts of the report that no task counts."""

    def run(
        self,
        name: str,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        title: str,
        sizes: Sequence[float] | None = None,
        only: Sequence[int] | None = None,
    ) -> list[Result]:
        """Results of all tasks in order; see `Workspace.run`."""
        return self.work.run(self.engine, name, function, tasks, self.progress, title, sizes, only)

    @property
    def task_memory_bytes(self) -> int:
        """What one task may hold of the memory that the settings allow."""
        return share_of(self.settings.engine.memory_bytes, self.engine.workers)

    @property
    def source_names(self) -> list[str]:
        """Sources by number."""
        return [source.name for source in self.plan.sources]

    @property
    def fingerprints(self) -> Path:
        """The file of what must not be trained on."""
        return self.work.folder / "protected.npz"

    @property
    def state(self) -> Path:
        """The array file with one byte a document, once exact and near-duplicates are found: `STAYS`, `VALIDATION` or `GONE`."""
        return self.work.folder / "state.npy"


@dataclass(frozen=True)
class Part:
    """One partition as it was read."""

    key: str
    slices: tuple[str, ...]
    sources: tuple[int, ...]
    """Numbers, among all sources, of the partition's own."""
    rows: int
    paragraphs: int
    bytes: int
    index: Path
    table: Path


@dataclass(frozen=True)
class Partitions:
    """All partitions in the order in which they were read; documents are numbered through them."""

    folder: Path
    parts: tuple[Part, ...]
    listing: str
    """The list of their indexes, for tasks."""

    @classmethod
    def of(
        cls, folder: Path, read: Sequence[Mapping[str, Any]], sources: Sequence[str], listing: Path
    ) -> Partitions:
        """What the tasks of the reading stage say that they wrote into `folder`."""
        parts = tuple(
            Part(
                part["key"],
                tuple(part["slices"]),
                tuple(sources.index(name) for name in part["sources"]),
                int(part["rows"]),
                int(part["paragraphs"]),
                int(part["bytes"]),
                index_path(folder, part["key"]),
                folder / f"{part['key']}.arrow",
            )
            for part in read
        )
        counts = [part.rows for part in parts]
        return cls(folder, parts, save_listing(listing, [part.index for part in parts], counts))

    @property
    def indexes(self) -> Listing:
        """Their indexes, by number."""
        return Listing(tuple(str(part.index) for part in self.parts), tuple(self.counts))

    @property
    def counts(self) -> list[int]:
        """Documents in every partition."""
        return [part.rows for part in self.parts]

    @property
    def offsets(self) -> tuple[int, ...]:
        """Number of the first document of every partition."""
        return self.indexes.offsets

    def fill(self, kind: npt.DTypeLike, value: Callable[[Part, Rows], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """An array with one entry a document, made partition by partition out of its index."""
        found = np.empty(sum(self.counts), kind)
        for part, offset in zip(self.parts, self.offsets, strict=True):
            found[offset : offset + part.rows] = value(part, open_rows(part.index))
        return found
