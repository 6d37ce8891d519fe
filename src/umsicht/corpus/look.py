"""Reading what is in a corpus, and what is not: random documents of any set, chosen so that the same question shows the same documents."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any

from umsicht.corpus.document import HasPath, Split, rows


@dataclass(frozen=True)
class Question:
    """Which documents to show."""

    source: str = ""
    rejected_by: str = ""
    """A stage (`exact`, `near`, `filter`, …) or a reason (`contained`, `boilerplate`, …): look among what was dropped."""
    label: str = ""
    """`promotional`, `notice`, or a quality rule."""
    language: str = ""
    cluster: str = ""
    """Id (or its first digits) of a kept document: it and those that went for it."""
    n: int = 3
    seed: int = 0


def look(artifact: HasPath, question: Question, threshold: float = 0.1) -> list[dict[str, Any]]:
    """Rows that answer the question, at most `n`; for a cluster all of its rows, the kept one first."""
    if question.cluster:
        return list(_cluster(artifact, question))
    split: tuple[Split, ...] = ("dropped",) if question.rejected_by else ("train", "val")
    found = (
        {**row, "split": kind}
        for kind in split
        for row in rows(artifact, kind)
        if _fits(row, question, threshold)
    )
    return nsmallest(question.n, found, key=lambda row: _order(row, question.seed))


def _order(row: Mapping[str, Any], seed: int) -> tuple[int, str]:
    return zlib.crc32(f"{seed}{row['id']}{row['origin']}".encode()), row["origin"]


def _fits(row: Mapping[str, Any], question: Question, threshold: float) -> bool:
    if question.source and not f"{row['source']}.".startswith(f"{question.source}."):
        return False
    if question.language and row["language"] != question.language:
        return False
    if question.rejected_by and question.rejected_by not in (row["stage"], row["reason"]):
        return False
    if question.label == "promotional":
        return row["promotional"] is not None and row["promotional"] >= threshold
    if question.label == "notice":
        return bool(row["notice"])
    return not question.label or row["rule"] == question.label


def _cluster(artifact: HasPath, question: Question) -> Iterator[dict[str, Any]]:
    kept: tuple[Split, ...] = ("train", "val")
    for kind in kept:
        for row in rows(artifact, kind):
            if row["id"].startswith(question.cluster):
                yield {**row, "split": kind}
    for row in rows(artifact, "dropped"):
        if row["detail"] and (
            f"of {question.cluster}" in row["detail"] or f"as {question.cluster}" in row["detail"]
        ):
            yield {**row, "split": "dropped"}
