"""Lines and paragraphs of documents, found and hashed while the words of a batch are at hand. Later stages read these small files instead of the texts.

Paragraphs are blocks between blank lines, or lines where a document has no blank line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.corpus.kernels import pieces as _pieces
from umsicht.corpus.kernels.shingles import SKETCH
from umsicht.corpus.kernels.spans import Lines, Words

LINE = np.dtype([("hash", "<u8"), ("row", "<u4"), ("start", "<u4"), ("end", "<u4")])
"""A line: the hash of its folded words, the row of its document, and where it stands in that document's UTF-8 bytes."""
SPAN = np.dtype([("row", "<u4"), ("start", "<u4"), ("end", "<u4")])
"""A paragraph: the row of its document, and where it stands in that document's UTF-8 bytes."""


@dataclass(frozen=True)
class PieceSettings:
    """Which pieces are looked at."""

    line_words: int = 0
    """Words that a line has at least; 0: lines are not looked at."""
    shingles: int = 0
    """Shingles that a paragraph has at least; 0: paragraphs are not looked at."""
    words: int = 5
    """Words a shingle."""


@dataclass(frozen=True)
class Pieces:
    """Lines `LINE` and paragraphs `SPAN`, and the bottom sketches `[paragraphs, SKETCH]` and numbers of shingles of these."""

    lines: npt.NDArray[Any]
    paragraphs: npt.NDArray[Any]
    sketches: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.uint32]


def lines_path(folder: Path, key: str) -> Path:
    """Where the lines of a partition lie."""
    return folder / f"{key}.lines.npy"


def paragraphs_path(folder: Path, key: str) -> Path:
    """Where the paragraphs of a partition lie."""
    return folder / f"{key}.paragraphs.npy"


def paragraph_sketches(folder: Path, key: str) -> tuple[Path, Path]:
    """Where the bottom sketches and the numbers of shingles of a partition's paragraphs lie."""
    return folder / f"{key}.paragraphs.sketch.npy", folder / f"{key}.paragraphs.shingles.npy"


def pieces_of(
    words: Words,
    lines: Lines,
    starts: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    settings: PieceSettings,
) -> Pieces:
    """Pieces of a batch of texts that begin at `starts`. `rows` are their places in a partition; of texts with -1 nothing is taken."""
    found = np.empty(0, LINE)
    if settings.line_words:
        long = (rows[lines.text] >= 0) & (lines.places[:, 3] - lines.places[:, 2] >= settings.line_words)
        found = _lines(words, lines.text[long], lines.places[long], starts, rows)
    if not settings.shingles:
        return Pieces(found, np.empty(0, SPAN), np.empty((0, SKETCH), np.uint64), np.empty(0, np.uint32))
    text, places = lines.blocks()
    count = places[:, 3] - places[:, 2]
    least = settings.shingles + settings.words - 1 if settings.shingles > 1 else 1
    long = (rows[text] >= 0) & (count >= least)
    return Pieces(found, *_paragraphs(words, text[long], places[long], starts, rows, settings.words))


def _lines(
    words: Words,
    text: npt.NDArray[np.uint32],
    places: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
) -> npt.NDArray[Any]:
    hashes = np.empty(len(text), np.uint64)
    _pieces.hash_runs(words.hashes, places[:, 2].copy(), places[:, 3].copy(), hashes)
    found = np.empty(len(text), LINE)
    found["hash"], found["row"] = hashes, rows[text]
    found["start"], found["end"] = places[:, 0] - starts[text], places[:, 1] - starts[text]
    return found


def _paragraphs(
    words: Words,
    text: npt.NDArray[np.uint32],
    places: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    n: int,
) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    found = np.empty(len(text), SPAN)
    found["row"] = rows[text]
    found["start"], found["end"] = places[:, 0] - starts[text], places[:, 1] - starts[text]
    sketches, sizes = np.empty((len(text), SKETCH), np.uint64), np.empty(len(text), np.uint32)
    _pieces.sketch_runs(words.hashes, places[:, 2].copy(), places[:, 3].copy(), n, sketches, sizes)
    return found, sketches, sizes
