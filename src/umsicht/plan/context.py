"""Which context length the data can fill, and what each length and packing costs.

A context of `seq_len` is worth its price only for tokens that have much of their own document before them. For each length the report says how
many tokens have at least half of it (`filled`), how much is padded or cut, and what part of the operations attention takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from umsicht.findings import Finding
from umsicht.model import ModelConfig
from umsicht.plan.flops import model_cost
from umsicht.tokens import Split
from umsicht.tokens.layout import BestFit, Concatenated, Layout
from umsicht.tokens.permutation import Permutation

Int64s = NDArray[np.int64]

PACKINGS = ("concatenate", "best-fit", "first-fit", "one-a-row")
CANDIDATES = (128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768)
MIN_FILLED = 0.10
"""The data fill a length where at least this share of the tokens has half of it before them in their own document."""
MAX_ATTENTION = 0.5
"""A length is recommended only where attention's two products take at most this share of the operations: beyond, a token costs double."""
UNFILLED = 0.05
MAX_PADDING = 0.05
SAMPLE_DOCUMENTS = 20_000
SAMPLE_ROWS = 2_000


@dataclass(frozen=True)
class PackingFigures:
    """One packing at one length. All shares are of the tokens, except `padding`, which is of the places in rows.

    `cropped`: tokens never trained on. `documents_cut`: documents that do not lie whole in one row. `filled`: tokens with at least
    `seq_len / 2` tokens of their own document before them in the row.
    """

    seq_len: int
    packing: str
    rows: int
    padding: float
    cropped: float
    documents_cut: float
    filled: float
    mean_context: float


@dataclass(frozen=True)
class ContextReport:
    """Lengths of the documents, figures of every candidate, and what is recommended: what the data fill and this model can afford."""

    documents: int
    tokens: int
    quantiles: dict[str, dict[str, int]]
    beyond: dict[int, float]
    attention_share: dict[int, float]
    figures: list[PackingFigures]
    filled_seq_len: int
    recommended_seq_len: int
    recommended_packing: str

    def at(self, seq_len: int, packing: str) -> PackingFigures | None:
        """The figures of one candidate."""
        return next((f for f in self.figures if (f.seq_len, f.packing) == (seq_len, packing)), None)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {**asdict(self), "beyond": {str(k): v for k, v in self.beyond.items()},
                "attention_share": {str(k): v for k, v in self.attention_share.items()}}  # fmt: skip


def analyse(
    split: Split,
    config: ModelConfig,
    seq_lens: Sequence[int] = CANDIDATES,
    *,
    at_most: int = SAMPLE_DOCUMENTS,
) -> ContextReport:
    """Look at the training documents. Lengths count the end token; `at_most` documents, drawn by key, are packed, all are counted."""
    lengths = split.lengths
    chosen = sorted({*seq_lens, config.seq_len})
    sample = lengths
    if len(lengths) > at_most:
        sample = lengths[Permutation(len(lengths), 1)(np.arange(at_most))]
    figures = [pack(sample, seq_len, packing) for seq_len in chosen for packing in PACKINGS]
    beyond = {seq_len: share_beyond(lengths, seq_len // 2) for seq_len in chosen}
    shares = {n: attention_share(config, n) for n in chosen}
    filled = max((n for n in chosen if beyond[n] >= MIN_FILLED), default=chosen[0])
    best = max((n for n in chosen if n <= filled and shares[n] <= MAX_ATTENTION), default=chosen[0])
    fit = next(f for f in figures if (f.seq_len, f.packing) == (best, "best-fit"))
    return ContextReport(
        documents=split.n_documents,
        tokens=split.n_tokens,
        quantiles=quantiles(split),
        beyond=beyond,
        attention_share=shares,
        figures=figures,
        filled_seq_len=filled,
        recommended_seq_len=best,
        recommended_packing="best-fit" if fit.padding <= MAX_PADDING else "concatenate",
    )


def share_beyond(lengths: Int64s, context: int) -> float:
    """Share of all tokens that have at least `context` tokens of their own document before them, rows not considered."""
    total = int(lengths.sum())
    return float(np.maximum(0, lengths - context).sum() / total) if total else 0.0


def quantiles(split: Split) -> dict[str, dict[str, int]]:
    """Document lengths in tokens by slice, and of all: least, quartiles, 95th percentile, largest."""
    names = {name: split.slice_numbers == number for number, name in enumerate(split.slices)}
    found = {}
    for name, members in (("all", np.ones(split.n_documents, bool)), *names.items()):
        lengths = split.lengths[members]
        if len(lengths):
            values = np.quantile(lengths, (0, 0.25, 0.5, 0.75, 0.95, 1), method="nearest")
            labels = ("least", "q25", "median", "q75", "q95", "largest")
            found[name] = {label: int(value) for label, value in zip(labels, values, strict=True)}
            found[name]["documents"] = len(lengths)
    return found


def attention_share(config: ModelConfig, seq_len: int) -> float:
    """Part of a forward pass that attention's two products take."""
    cost = model_cost(config, seq_len)
    return cost.attention_flops_forward / cost.flops_forward


def pack(lengths: Int64s, seq_len: int, packing: str) -> PackingFigures:
    """Figures of one packing of documents of these lengths, in tokens."""
    total = int(lengths.sum())
    if packing == "one-a-row":
        kept = np.minimum(lengths, seq_len + 1)
        return _figures(
            seq_len,
            packing,
            kept,
            np.zeros_like(kept),
            len(lengths),
            total,
            int((lengths > seq_len + 1).sum()),
            len(lengths),
        )
    order = np.arange(len(lengths), dtype=np.int64)
    if packing == "concatenate":
        layout: Layout = Concatenated(order, lengths, seq_len)
        pieces = _sampled_pieces(layout)
        cut = int(np.count_nonzero(_crosses_edge(lengths, seq_len)))
        filled, mean = _context(pieces, seq_len)
        padding = 1 - (total - 1) / (layout.n_rows * seq_len) if layout.n_rows else 0.0
        return PackingFigures(
            seq_len, packing, layout.n_rows, max(0.0, padding), 0.0, cut / max(1, len(lengths)), filled, mean
        )
    chunks = _chunks(lengths, seq_len)
    rows = (
        BestFit(order, lengths, seq_len).n_rows
        if packing == "best-fit"
        else first_fit_decreasing(chunks, seq_len + 1)
    )
    return _figures(
        seq_len,
        packing,
        chunks,
        np.zeros_like(chunks),
        rows,
        total,
        int((lengths > seq_len + 1).sum()),
        len(lengths),
    )


def first_fit_decreasing(lengths: Int64s, capacity: int) -> int:
    """Rows that first-fit-decreasing needs (Johnson 1973): each chunk, longest first, into the first row with room.

    The first row with room is found in a tree of maxima, so n chunks take O(n log n).
    """
    n = len(lengths)
    size = 1 << max(1, (n - 1).bit_length())
    room = [capacity] * (2 * size)
    used = -1
    for length in sorted(lengths.tolist(), reverse=True):
        node = 1
        while node < size:
            node = 2 * node if room[2 * node] >= length else 2 * node + 1
        used = max(used, node - size)
        room[node] -= length
        while node > 1:
            node //= 2
            room[node] = max(room[2 * node], room[2 * node + 1])
    return used + 1


def findings(report: ContextReport, config: ModelConfig, packing: str) -> list[Finding]:
    """CONTEXT findings about the recipe's own choice."""
    found = []
    own = report.at(config.seq_len, packing)
    beyond = report.beyond[config.seq_len]
    if beyond < UNFILLED and report.recommended_seq_len < config.seq_len:
        numbers: dict[str, Any] = {
            "seq_len": config.seq_len,
            "half": config.seq_len // 2,
            "share": round(100 * beyond, 2),
            "median": report.quantiles["all"]["median"],
            "recommended": report.recommended_seq_len,
            "attention": round(100 * report.attention_share[config.seq_len], 1),
        }
        found.append(Finding("CONTEXT/unfilled", "warn", "plan", "model.seq_len", numbers))
    if own is not None and own.padding > MAX_PADDING:
        numbers = {"share": round(100 * own.padding, 1), "packing": packing, "seq_len": config.seq_len}
        found.append(Finding("CONTEXT/padding", "warn", "plan", "tokens.packing", numbers))
    if packing == "best-fit" and own is not None and own.documents_cut > 0.25:
        numbers = {"share": round(100 * own.documents_cut, 1), "seq_len": config.seq_len}
        found.append(Finding("CONTEXT/documents-cut", "note", "plan", "model.seq_len", numbers))
    return found


def _figures(
    seq_len: int,
    packing: str,
    pieces: Int64s,
    starts: Int64s,
    rows: int,
    total: int,
    cut: int,
    documents: int,
) -> PackingFigures:
    """Figures of a packing whose pieces all begin without context. A piece of n tokens has n - 1 targets."""
    filled, mean = _context((pieces, starts), seq_len)
    # A document cut into overlapping chunks repeats one token a cut: what is kept is counted without the repeats.
    kept = int(pieces.sum()) - max(0, len(pieces) - documents)
    return PackingFigures(
        seq_len=seq_len,
        packing=packing,
        rows=rows,
        padding=max(0.0, 1 - int(np.maximum(0, pieces - 1).sum()) / (rows * seq_len)) if rows else 0.0,
        cropped=max(0.0, 1 - kept / total) if total else 0.0,
        documents_cut=cut / max(1, documents),
        filled=filled,
        mean_context=mean,
    )


def _context(pieces: tuple[Int64s, Int64s], seq_len: int) -> tuple[float, float]:
    """Share of tokens with half of `seq_len` before them, and the mean of what is before them, for pieces that begin a context each."""
    lengths = pieces[0].astype(np.float64)
    total = lengths.sum() or 1.0
    filled = np.maximum(0.0, lengths - seq_len // 2).sum() / total
    return float(filled), float((lengths * (lengths - 1) / 2).sum() / total)


def _sampled_pieces(layout: Layout) -> tuple[Int64s, Int64s]:
    n = layout.n_rows
    rows = np.arange(n) if n <= SAMPLE_ROWS else Permutation(n, 2)(np.arange(SAMPLE_ROWS))
    found = [(piece.length, piece.start) for row in rows.tolist() for piece in layout.pieces(row)]
    array = np.asarray(found, dtype=np.int64).reshape(-1, 2)
    return array[:, 0], array[:, 1]


def _crosses_edge(lengths: Int64s, seq_len: int) -> NDArray[np.bool_]:
    ends = np.cumsum(lengths)
    first, last = (ends - lengths) // seq_len, (ends - 1) // seq_len
    crossed: NDArray[np.bool_] = first != last
    return crossed


def _chunks(lengths: Int64s, seq_len: int) -> Int64s:
    counts = np.maximum(1, -(-(lengths - 1) // seq_len))
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    sizes: Int64s = np.minimum(np.repeat(lengths, counts) - within * seq_len, seq_len + 1)
    return sizes
