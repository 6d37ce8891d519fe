"""Running the search: stages in order, memory bounded by a setting, and the keep rule at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.corpus.engine import Engine, share_of
from umsicht.corpus.near import tasks
from umsicht.corpus.near.tasks import PAIR, BucketTask, RangeTask, SetTask, SketchTask, SpanFile, rank
from umsicht.corpus.work import Workspace
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
    folder = work.stage(job.name)
    outputs = tuple(str(folder / f"{number:05d}") for number in range(len(job.texts)))
    offsets = tuple(int(n) for n in np.concatenate([[0], np.cumsum(job.counts)])[:-1])
    total = int(sum(job.counts))

    def stage(name: str, function: Any, todo: Sequence[Any]) -> list[dict[str, Any]]:
        return work.run(
            engine,
            f"{job.name}-{name}",
            function,
            todo,
            progress,
            f"{title or job.name}: {t(f'corpus.near.{name}')}",
        )

    row_bits = max(job.counts, default=1).bit_length()
    sketched = stage(
        "sketch",
        tasks.sketch_part,
        [
            SketchTask(texts, output, job.words, job.min_shingles, row_bits)
            for texts, output in zip(job.texts, outputs, strict=True)
        ],
    )
    keys = sum(result["keys"] for result in sketched)
    passes = max(1, -(-keys * BYTES_A_KEY // share_of(job.memory_bytes, engine.workers)))
    edges = [(1 << (64 - row_bits)) * number // passes for number in range(passes + 1)]
    buckets = [
        BucketTask(
            edges[n],
            edges[n + 1] - 1,
            row_bits,
            outputs,
            offsets,
            str(job.state),
            str(job.groups or ""),
            str(folder / f"{n:05d}.pairs.npy"),
        )
        for n in range(passes)
    ]
    paired = stage("pair", tasks.pair_bucket, buckets)
    files = tuple(result["file"] for result in paired)
    ranges = _ranges(job.counts)

    def range_tasks(kind: str) -> list[RangeTask]:
        return [
            RangeTask(
                first,
                last,
                outputs,
                offsets,
                total,
                files,
                str(folder / f"{first:05d}.{kind}.npy"),
                job.jaccard,
                job.containment,
                str(job.state),
            )
            for first, last in ranges
        ]

    filtered = stage("filter", tasks.filter_pairs, range_tasks("likely"))
    involved = tuple(f"{result['file']}.involved.npy" for result in filtered)
    stage(
        "set",
        tasks.set_part,
        [
            SetTask(texts, offset, involved, output, job.words)
            for texts, offset, output in zip(job.texts, offsets, outputs, strict=True)
        ],
    )
    verified = stage("verify", tasks.verify_pairs, range_tasks("verified"))
    decided = stage(
        "decide",
        decide,
        [
            DecideTask(
                tuple(result["file"] for result in verified),
                outputs,
                tuple(job.counts),
                str(job.state),
                str(folder / "decided.npy"),
            )
        ],
    )[0]
    return NearResult(
        np.load(decided["file"]),
        sum(result["pairs"] for result in filtered),
        sum(result["likely"] for result in filtered),
        decided["verified"],
    )


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


@dataclass(frozen=True)
class DecideTask:
    """All verified pairs, and what the keep order asks of their texts."""

    pairs: tuple[str, ...]
    outputs: tuple[str, ...]
    counts: tuple[int, ...]
    state: str
    output: str


def decide(task: DecideTask) -> dict[str, Any]:
    """Write the drops by the keep rule: in the keep order, a text goes if it is alike to one that stays; the most alike of those is named."""
    from umsicht.corpus.kernels.pairs import resolve

    pairs = np.concatenate([np.empty(0, PAIR), *(np.load(name) for name in task.pairs)])
    later = pairs["later"]
    state = np.load(task.state, mmap_mode="r")[later]
    order = np.lexsort((pairs["earlier"], rank(state, _sizes(later, task.outputs, task.counts), later)))
    pairs = pairs[order]
    chosen = np.empty(len(pairs), np.int64)
    gone = np.zeros(sum(task.counts), np.uint8)
    count = resolve(
        np.ascontiguousarray(pairs["later"]),
        np.ascontiguousarray(pairs["earlier"]),
        np.ascontiguousarray(pairs["score"]),
        gone,
        chosen,
    )
    drops = pairs[chosen[:count]]
    drops.sort(order="later")
    np.save(task.output, drops)
    return {"file": task.output, "verified": len(pairs)}


def _sizes(
    numbers: npt.NDArray[np.uint32], outputs: Sequence[str], counts: Sequence[int]
) -> npt.NDArray[np.uint32]:
    """Shingles of some texts, out of the files of their partitions."""
    offsets = np.concatenate([[0], np.cumsum(counts)])
    part = np.searchsorted(offsets, numbers, "right") - 1
    sizes = np.empty(len(numbers), np.uint32)
    for p in np.unique(part):
        mine = part == p
        sizes[mine] = np.load(f"{outputs[p]}.size.npy", mmap_mode="r")[numbers[mine] - offsets[p]]
    return sizes
