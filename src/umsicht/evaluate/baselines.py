"""Baselines on the held-out bytes: `xz -9`, `xz -9` that saw the training text, and an interpolated n-gram model.

A newcomer sees from them at once whether a model learned anything: all three cost seconds, none of them a GPU.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from umsicht.evaluate.compress import PRESET, context_limit, xz_bytes, xz_extra_bytes
from umsicht.evaluate.heldout import Excerpt, HasText
from umsicht.evaluate.ngram import NgramModel
from umsicht.record.progress import QUIET, Progress
from umsicht.words import t

_HASH_DIGITS = 12


class Encoder(Protocol):
    """What is asked of a tokenizer."""

    @property
    def eos_id(self) -> int: ...
    @property
    def n_tokens(self) -> int: ...
    def encode_batch(self, texts: list[str]) -> list[list[int]]: ...


@dataclass(frozen=True)
class SliceBaseline:
    """One slice; the three figures are bits per raw UTF-8 byte."""

    documents: int
    bytes: int
    xz: float
    xz_context: float
    ngram: float

    def to_dict(self) -> dict[str, float | int]:
        return asdict(self)


@dataclass(frozen=True)
class Baselines:
    """All slices, and what the figures rest on."""

    slices: dict[str, SliceBaseline]
    method: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {"slices": {name: s.to_dict() for name, s in self.slices.items()}, "method": self.method}


def by_hash(documents: Iterable[HasText], shares: Mapping[str, float] | float) -> Iterable[HasText]:
    """The documents whose hash falls below a share of its range (one for all, or one a slice): a fixed, spread-out sample."""
    for document in documents:
        share = shares if isinstance(shares, float) else shares.get(document.slice, 0.0)
        if share >= 1.0 or int(document.id[:_HASH_DIGITS], 16) < share * 16**_HASH_DIGITS:
            yield document


def even_shares(sizes: Mapping[str, int], limit: int) -> dict[str, float]:
    """The share of each slice to take so that `limit` bytes are spread evenly: small slices whole, large ones in part.

    So every slice finds as much text of its own kind in the context as the limit allows.
    """
    shares, left, waiting = {}, float(limit), sorted(sizes.items(), key=lambda item: item[1])
    for position, (name, size) in enumerate(waiting):
        taken = min(float(size), left / (len(waiting) - position))
        shares[name] = taken / size if size else 0.0
        left -= taken
    return shares


def measure(
    excerpts: Sequence[Excerpt],
    training: Callable[[], Iterable[HasText]],
    tokenizer: Encoder,
    *,
    context_bytes: int,
    ngram_order: int,
    ngram_tokens: int,
    progress: Progress = QUIET,
) -> Baselines:
    """Measure all three on `excerpts`. `training()` gives the training documents anew each time it is called.

    Raises ValueError where there is no held-out text.
    """
    if not excerpts:
        raise ValueError("no held-out text to measure")
    joined = _join(excerpts)
    sizes = _sizes(training())
    training_bytes = sum(sizes.values())
    progress.stage(t("evaluate.stage.baselines", order=ngram_order))
    with ThreadPoolExecutor(1) as other:  # xz works in a process of its own, so the two go side by side
        compressed = other.submit(_xz, joined, training, sizes, context_bytes)
        counted, bits = _ngram(excerpts, training, tokenizer, training_bytes, ngram_order, ngram_tokens)
        plain, seen, used = compressed.result()
    slices = {
        name: SliceBaseline(
            documents=sum(e.slice == name for e in excerpts),
            bytes=len(data),
            xz=plain[name],
            xz_context=seen[name],
            ngram=bits[name] / len(data),
        )
        for name, data in joined.items()
    }
    method = {
        "xz": f"LZMA2 preset {PRESET} (as `xz -9`), .xz container with CRC64, one stream a slice",
        "xz_context": "size(training text + slice) - size(training text), training text spread evenly over its slices",
        "xz_context_bytes": used,
        "training_bytes": training_bytes,
        "ngram": f"interpolated modified Kneser-Ney, order {ngram_order}, over the tokenizer's tokens",
        "ngram_order": ngram_order,
        "ngram_tokens": counted,
    }
    return Baselines(slices, method)


def _sizes(documents: Iterable[HasText]) -> dict[str, int]:
    sizes: dict[str, int] = defaultdict(int)
    for document in documents:
        sizes[document.slice] += len(document.text.encode("utf-8"))
    return dict(sizes)


def _xz(
    joined: dict[str, bytes],
    training: Callable[[], Iterable[HasText]],
    sizes: dict[str, int],
    context_bytes: int,
) -> tuple[dict[str, float], dict[str, float], int]:
    """Bits per byte without and with training text, and the bytes of training text used."""
    plain = {name: 8 * xz_bytes(data) / len(data) for name, data in joined.items()}
    limit = min(context_bytes, context_limit(list(joined.values())))
    sample = by_hash(training(), even_shares(sizes, limit))
    context = [d.text.encode("utf-8") + b"\n" for d in sample]
    context = _bounded(context, limit)
    extra = xz_extra_bytes(context, list(joined.values()))
    seen = {name: 8 * size / len(joined[name]) for name, size in zip(joined, extra, strict=True)}
    return plain, seen, sum(map(len, context))


def _join(excerpts: Sequence[Excerpt]) -> dict[str, bytes]:
    parts: dict[str, list[bytes]] = defaultdict(list)
    for excerpt in excerpts:
        parts[excerpt.slice].append(excerpt.data)
    return {name: b"".join(pieces) for name, pieces in sorted(parts.items())}


def _bounded(parts: list[bytes], limit: int) -> list[bytes]:
    kept, left = [], limit
    for part in parts:
        if len(part) > left:
            kept.append(part[:left])
            break
        kept.append(part)
        left -= len(part)
    return [part for part in kept if part]


def encode_excerpts(
    excerpts: Sequence[Excerpt], tokenizer: Encoder
) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
    """Token ids of each excerpt; a whole document ends with end-of-text, a cut one does not."""
    encoded = tokenizer.encode_batch([e.text for e in excerpts])
    return [
        np.asarray([*ids, tokenizer.eos_id] if e.whole else ids, dtype=np.int64)
        for e, ids in zip(excerpts, encoded, strict=True)
    ]


def _ngram(
    excerpts: Sequence[Excerpt],
    training: Callable[[], Iterable[HasText]],
    tokenizer: Encoder,
    training_bytes: int,
    order: int,
    limit: int,
) -> tuple[int, dict[str, float]]:
    held_out = encode_excerpts(excerpts, tokenizer)
    tokens_per_byte = sum(map(len, held_out)) / max(1, sum(len(e.data) for e in excerpts))
    share = limit / max(1.0, training_bytes * tokens_per_byte)
    model = NgramModel.fit(
        _limited(_encoded(by_hash(training(), share), tokenizer), math.ceil(limit)),
        vocab_size=tokenizer.n_tokens,
        eos_id=tokenizer.eos_id,
        order=order,
    )
    bits: dict[str, float] = defaultdict(float)
    for excerpt, logs in zip(excerpts, model.score(held_out), strict=True):
        bits[excerpt.slice] -= float(logs.sum())
    return model.training_tokens, bits


def _encoded(
    documents: Iterable[HasText], tokenizer: Encoder, batch: int = 512
) -> Iterable[np.ndarray[Any, np.dtype[np.int64]]]:
    waiting: list[str] = []

    def flush() -> Iterable[np.ndarray[Any, np.dtype[np.int64]]]:
        for ids in tokenizer.encode_batch(waiting):
            yield np.asarray([*ids, tokenizer.eos_id], dtype=np.int64)
        waiting.clear()

    for document in documents:
        waiting.append(document.text)
        if len(waiting) >= batch:
            yield from flush()
    yield from flush()


def _limited(
    documents: Iterable[np.ndarray[Any, np.dtype[np.int64]]], limit: int
) -> Iterable[np.ndarray[Any, np.dtype[np.int64]]]:
    left = limit
    for ids in documents:
        if left <= 0:
            return
        yield ids[:left]
        left -= len(ids)
