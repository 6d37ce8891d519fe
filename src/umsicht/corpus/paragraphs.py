"""Paragraphs as texts of their own, for the search of near-duplicates: blocks between blank lines, or lines where a document has no blank line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from umsicht.corpus.document import read_columns
from umsicht.corpus.kernels.spans import lines_of, spans_of
from umsicht.corpus.lines import is_code
from umsicht.corpus.near.tasks import GONE

SPAN = np.dtype([("row", "<u4"), ("start", "<u4"), ("end", "<u4")])
"""A paragraph: the row of its document, and where it stands in that document's UTF-8 bytes."""
BYTES_A_SHINGLE = 3
"""A paragraph with fewer bytes than this a wanted shingle cannot have enough of them (CJK: three bytes a word)."""


@dataclass(frozen=True)
class ParagraphsTask:
    """Paragraphs of one partition."""

    table: str
    state: str
    offset: int
    output: str
    min_shingles: int


def find_paragraphs(task: ParagraphsTask) -> dict[str, Any]:
    """Write the spans of all paragraphs that are long enough to be compared."""
    table = read_columns(task.table, ["text", "domain"])
    spans = spans_of(table.column("text"))
    state = np.load(task.state, mmap_mode="r")[task.offset : task.offset + len(spans)]
    chosen = np.flatnonzero((state != GONE) & ~is_code(table))
    text, paragraphs = lines_of(spans.take(chosen), blocks=True)
    long = (paragraphs.ends - paragraphs.starts) >= BYTES_A_SHINGLE * task.min_shingles
    rows = chosen[text[long]]
    found = np.empty(int(long.sum()), SPAN)
    found["row"] = rows
    found["start"] = paragraphs.starts[long] - spans.starts[rows]
    found["end"] = paragraphs.ends[long] - spans.starts[rows]
    np.save(task.output, found)
    return {"file": task.output, "paragraphs": len(found)}
