"""Counting tokens: estimated for every source and stage from a stratified sample of bytes per token, exact for what is left at the end.

The estimate of a stage is its bytes over the ratio of sampled bytes to sampled tokens, document lengths cut into equal strata; its interval is a
bootstrap over documents (Efron 1979) of that ratio.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.corpus.document import HasPath, rows
from umsicht.record import atomic_write

Encode = Callable[[list[str]], Sequence[Sequence[int]]]

SAMPLE = 300
"""Documents sampled a source."""
LOOKED_AT = 20_000
"""Characters of a document that are encoded."""
RESAMPLES = 400


@dataclass(frozen=True)
class Ratio:
    """Bytes per token of a source."""

    bytes_per_token: float
    low: float
    high: float
    documents: int

    def tokens(self, size: int) -> dict[str, int]:
        """Tokens of so many bytes, with a 95 % interval."""
        return {
            "tokens": round(size / self.bytes_per_token) if size else 0,
            "low": round(size / self.high) if size else 0,
            "high": round(size / self.low) if size else 0,
        }


def estimate(artifact: HasPath, report: Mapping[str, Any], encode: Encode) -> dict[str, Any]:
    """The ledger with tokens: `{source: {ratio, stages: [{stage, documents, bytes, tokens, low, high}]}}`."""
    samples = _samples(artifact)
    ledger: dict[str, Any] = {}
    for name, source in report["sources"].items():
        ratio = _ratio(samples.get(name, []), encode)
        stages = []
        for row in source["stages"]:
            counted = ratio.tokens(row["bytes"]) if ratio else {"tokens": None, "low": None, "high": None}
            stages.append({**row, **counted})
        ledger[name] = {
            "bytes_per_token": ratio.bytes_per_token if ratio else None,
            "sampled_documents": ratio.documents if ratio else 0,
            "stages": stages,
        }
    return ledger


COUNTED = np.dtype([("hi", "<u8"), ("lo", "<u8"), ("tokens", "<u4")])


@dataclass(frozen=True)
class Exact:
    """Tokens of the training split."""

    tokens: dict[str, int]
    """By source."""
    documents: int
    cached: int
    """Documents that an earlier count had seen: in this corpus or in another one."""


def exact(artifact: HasPath, encode: Encode, cache: Path | None = None, batch: int = 256) -> Exact:
    """Tokens of the training split by source; every document that `cache` (one file for each tokenizer) does not know is encoded."""
    known = _known(cache)
    new: list[tuple[int, int, int]] = []
    totals: dict[str, int] = {}
    documents = 0
    for chunk in _chunks(rows(artifact, "train", ("id", "text", "source")), batch):
        keys = [(int(row["id"][:16], 16), int(row["id"][16:], 16)) for row in chunk]
        counts = [known.get(key) for key in keys]
        unseen = [i for i, count in enumerate(counts) if count is None]
        for i, ids in zip(unseen, encode([chunk[i]["text"] for i in unseen]) if unseen else (), strict=True):
            counts[i] = len(ids)
            new.append((*keys[i], len(ids)))
        for row, count in zip(chunk, counts, strict=True):
            totals[row["source"]] = totals.get(row["source"], 0) + (count or 0)
        documents += len(chunk)
    if cache is not None and new:
        _remember(cache, new)
    return Exact(totals, documents, documents - len(new))


def _known(cache: Path | None) -> dict[tuple[int, int], int]:
    if cache is None or not cache.is_file():
        return {}
    table = np.load(cache)
    return dict(
        zip(
            zip(table["hi"].tolist(), table["lo"].tolist(), strict=True),
            table["tokens"].tolist(),
            strict=True,
        )
    )


def _remember(cache: Path, new: list[tuple[int, int, int]]) -> None:
    before = np.load(cache) if cache.is_file() else np.empty(0, COUNTED)
    stream = io.BytesIO()
    np.save(stream, np.concatenate([before, np.array(new, COUNTED)]))
    atomic_write(cache, stream.getvalue())


def _chunks(source: Iterator[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    chunk: list[dict[str, Any]] = []
    for row in source:
        chunk.append(row)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _samples(artifact: HasPath) -> dict[str, list[str]]:
    """For every source, documents with the smallest hash of their id in each third of the lengths: kept and dropped alike."""
    found: dict[str, list[tuple[int, int, str, str]]] = {}
    for split in ("train", "val", "dropped"):
        for row in rows(artifact, split, ("id", "source", "bytes")):
            if row["bytes"]:
                key = zlib.crc32(row["id"].encode())
                found.setdefault(row["source"], []).append((row["bytes"], key, split, row["id"]))
    chosen: dict[tuple[str, str], str] = {}
    for source, entries in found.items():
        entries.sort()
        third = max(1, -(-len(entries) // 3))
        for first in range(0, len(entries), third):
            stratum = sorted(entries[first : first + third], key=lambda entry: entry[1])
            for _, _, split, identity in stratum[: SAMPLE // 3]:
                chosen[split, identity] = source
    texts: dict[str, list[str]] = {}
    for split in ("train", "val", "dropped"):
        wanted = {identity for kind, identity in chosen if kind == split}
        if wanted:
            for row in rows(artifact, split, ("id", "text")):  # type: ignore[arg-type]  # the three literals
                if row["id"] in wanted:
                    wanted.discard(row["id"])
                    texts.setdefault(chosen[split, row["id"]], []).append(row["text"][:LOOKED_AT])
    return texts


def _ratio(texts: list[str], encode: Encode) -> Ratio | None:
    texts = [text for text in texts if text]
    if not texts:
        return None
    sizes = np.array([len(text.encode()) for text in texts], float)
    tokens = np.array([max(len(ids), 1) for ids in encode(texts)], float)
    rng = np.random.default_rng(0)
    draws = rng.integers(0, len(texts), (RESAMPLES, len(texts)))
    ratios: npt.NDArray[np.float64] = sizes[draws].sum(1) / tokens[draws].sum(1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return Ratio(float(sizes.sum() / tokens.sum()), float(low), float(high), len(texts))
