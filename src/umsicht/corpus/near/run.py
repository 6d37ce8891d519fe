"""Running the search: stages in order, memory bounded by a setting, and the keep rule at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.corpus.engine import Engine, share_of
from umsicht.corpus.listing import save_listing
from umsicht.corpus.near import tasks
from umsicht.corpus.near.decide import DecideTask, decide
from umsicht.corpus.near.tasks import BucketTask, RangeTask, SetTask, SketchTask, SpanFile
from umsicht.corpus.work import Result, Workspace
from umsicht.record import QUIET, Progress
from umsicht.words import t

BYTES_A_KEY = 200
"""Memory of one index key in a pass, as measured where most keys are shared: then each has a rank, a place in the order and several pairs."""
PAIR_RANGE_TEXTS = 400_000
"""Texts whose pairs one task filters and verifies."""


@dataclass(frozen=True)
class NearJob:
    """What to search in."""

    name: str
    texts: Sequence[SpanFile]
    counts: Sequence[int]
    """Texts in every partition."""
    state: Path
    """An array file with one byte a text: `STAYS`, `VALIDATION` or `GONE`. A file, for nobody need hold it while the stages run."""
    groups: Path | None = None
    """An array file with the document (uint32) of every paragraph: two of one document are no pair. None for documents."""
    words: int = 5
    jaccard: float = 0.7
    containment: float = 0.8
    memory_bytes: int = 1_000_000_000
    min_shingles: int = 1
    """Shorter texts are left alone."""


@dataclass(frozen=True)
class NearResult:
    """Texts that go: `later` for `earlier` (both by number), sorted by `later`."""

    drops: npt.NDArray[Any]
    candidates: int
    likely: int
    verified: int


def find_near(
    job: NearJob, work: Workspace, engine: Engine, progress: Progress = QUIET, title: str = ""
) -> NearResult:
    """Search, verify, decide. The same texts give the same drops, however many workers and passes there are."""
    search = _Search(job, work, engine, progress, title or job.name)
    keys = search.sketch()
    pairs = search.pair(keys)
    filtered = search.filter(pairs)
    search.sets([f"{result['file']}.involved.npy" for result in filtered])
    decided = search.decide(search.verify(pairs))
    return NearResult(
        np.load(decided["file"]),
        sum(result["pairs"] for result in filtered),
        sum(result["likely"] for result in filtered),
        decided["verified"],
    )


class _Search:
    """One job over one work folder."""

    def __init__(self, job: NearJob, work: Workspace, engine: Engine, progress: Progress, title: str) -> None:
        self.job, self.work, self.engine, self.progress, self.title = job, work, engine, progress, title
        self.folder = work.stage(job.name)
        self.outputs = [str(self.folder / f"{number:05d}") for number in range(len(job.texts))]
        self.parts = save_listing(self.folder / "parts.json", self.outputs, job.counts)
        self.row_bits = max(job.counts, default=1).bit_length()

    def _run(self, name: str, function: Callable[[Any], Result], todo: Sequence[Any]) -> list[Result]:
        title = f"{self.title}: {t(f'corpus.near.{name}')}"
        return self.work.run(self.engine, f"{self.job.name}-{name}", function, todo, self.progress, title)

    def sketch(self) -> int:
        """Index keys of all texts."""
        job = self.job
        todo = [
            SketchTask(texts, output, job.words, job.min_shingles, self.row_bits)
            for texts, output in zip(job.texts, self.outputs, strict=True)
        ]
        return sum(result["keys"] for result in self._run("sketch", tasks.sketch_part, todo))

    def pair(self, keys: int) -> str:
        """List of the files of candidate pairs, made in so many passes that one fits into memory."""
        passes = max(1, -(-keys * BYTES_A_KEY // share_of(self.job.memory_bytes, self.engine.workers)))
        edges = [(1 << (64 - self.row_bits)) * number // passes for number in range(passes + 1)]
        todo = [
            BucketTask(
                edges[n],
                edges[n + 1] - 1,
                self.row_bits,
                self.parts,
                str(self.job.state),
                str(self.job.groups or ""),
                str(self.folder / f"{n:05d}.pairs.npy"),
            )
            for n in range(passes)
        ]
        return self._list("pairs", [result["file"] for result in self._run("pair", tasks.pair_bucket, todo)])

    def filter(self, pairs: str) -> list[Result]:
        """Pairs that their sketches let through, by range of texts."""
        return self._run("filter", tasks.filter_pairs, self._ranges("likely", pairs))

    def sets(self, involved: Sequence[str]) -> None:
        """Whole shingle sets of the texts that are left over."""
        listed = self._list("involved", involved)
        parts = zip(self.job.texts, np.cumsum([0, *self.job.counts]).tolist(), self.outputs, strict=False)
        todo = [SetTask(texts, first, listed, output, self.job.words) for texts, first, output in parts]
        self._run("set", tasks.set_part, todo)

    def verify(self, pairs: str) -> str:
        """List of the files of pairs that are truly alike."""
        verified = self._run("verify", tasks.verify_pairs, self._ranges("verified", pairs))
        return self._list("verified", [result["file"] for result in verified])

    def decide(self, verified: str) -> Result:
        """Who goes for whom."""
        task = DecideTask(verified, self.parts, str(self.job.state), str(self.folder / "decided.npy"))
        return self._run("decide", decide, [task])[0]

    def _ranges(self, kind: str, pairs: str) -> list[RangeTask]:
        job = self.job
        return [
            RangeTask(
                first,
                last,
                self.parts,
                pairs,
                str(self.folder / f"{first:05d}.{kind}.npy"),
                job.jaccard,
                job.containment,
                str(job.state),
            )
            for first, last in _ranges(job.counts)
        ]

    def _list(self, name: str, files: Sequence[str]) -> str:
        return save_listing(self.folder / f"{name}.json", files)


def _ranges(counts: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbouring partitions together up to so many texts."""
    found: list[tuple[int, int]] = []
    first, size = 0, 0
    for number, count in enumerate(counts):
        if size and size + count > PAIR_RANGE_TEXTS:
            found.append((first, number))
            first, size = number, 0
        size += count
    if counts:
        found.append((first, len(counts)))
    return found
