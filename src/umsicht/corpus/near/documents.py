"""The state of every document, and near-duplicates among those that are left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.corpus import examples
from umsicht.corpus.context import Context, Partitions
from umsicht.corpus.index import open_rows, save_array, shingles_path, sketch_path
from umsicht.corpus.near.run import NearJob, find_near
from umsicht.corpus.near.tasks import GONE, STAYS, VALIDATION, SpanFile
from umsicht.corpus.split import choose_validation, is_chosen
from umsicht.words import t

State = npt.NDArray[np.uint8]


def first_state(context: Context, partitions: Partitions, exact: Sequence[str]) -> State:
    """One byte a document: stays, validation, or gone as an exact duplicate."""
    chosen = choose_validation(partitions.parts, context.settings.validation)
    state = partitions.fill(
        np.uint8, lambda _, rows: np.where(is_chosen(rows, chosen), np.uint8(VALIDATION), np.uint8(STAYS))
    )
    offsets = np.array(partitions.offsets)
    for name in exact:
        drops = open_rows(Path(name))
        state[offsets[drops["part"]] + drops["row"]] = GONE
    return state


def run(context: Context, partitions: Partitions, exact: Sequence[str]) -> str:
    """File of the pairs for which a document goes; empty where the stage is switched off. Leaves the state of all documents behind."""
    state = first_state(context, partitions, exact)
    if not context.settings.dedupe.near.enabled:
        save_array(context.state, state)
        return ""
    folder = context.work.stage("near")
    job = _job(context, partitions, save_array(folder / "state.npy", state))
    found = find_near(job, context.work, context.engine, context.progress, t("corpus.stage.near"))
    drops = _capped(context, partitions, state, found.drops)
    context.notes["near"] = {
        "candidates": found.candidates,
        "likely": found.likely,
        "verified": found.verified,
        "dropped": len(drops),
    }
    context.notes["clusters"] = examples.clusters(drops, partitions.indexes)
    state[drops["later"]] = GONE
    save_array(context.state, state)
    return str(save_array(folder / "drops.npy", drops))


def _job(context: Context, partitions: Partitions, state: Path) -> NearJob:
    near, folder = context.settings.dedupe.near, partitions.folder
    texts = [
        SpanFile(
            str(part.table),
            sketches=(str(sketch_path(folder, part.key)), str(shingles_path(folder, part.key))),
        )
        for part in partitions.parts
    ]
    return NearJob(
        "near",
        texts,
        partitions.counts,
        state,
        words=near.words,
        jaccard=near.jaccard,
        containment=near.containment,
        memory_bytes=context.settings.engine.memory_bytes,
    )


def _capped(
    context: Context, partitions: Partitions, state: State, drops: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """No source loses more than its largest share; the most alike go first. What stood against validation always goes."""
    names = context.source_names
    sources = partitions.fill(np.uint16, lambda part, rows: np.array(part.sources, np.uint16)[rows["source"]])
    left = np.bincount(sources[state != GONE], minlength=len(names))
    keep = np.ones(len(drops), bool)
    capped = {}
    for number, name in enumerate(names):
        mine = np.flatnonzero(sources[drops["later"]] == number)
        free = mine[state[drops["earlier"][mine]] != VALIDATION]
        allowed = int(left[number] * context.settings.dedupe.near.largest_share)
        if len(free) > allowed:
            order = np.argsort(-drops["score"][free], kind="stable")
            keep[free[order[allowed:]]] = False
            capped[name] = {
                "found": len(mine),
                "documents": int(left[number]),
                "kept": len(free) - allowed,
            }
    context.notes["near_capped"] = capped
    return drops[keep]
