"""T16 and the raw text: validation inside training, copies, boilerplate, and whole classes of characters that are gone."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from umsicht.findings import Finding
from umsicht.guard.subject import Cannot, Subject, grade_if, numbers

GRAM = 13
GRAM_BYTES = 50
TRAIN_TOKENS = 40_000_000
VAL_TOKENS = 2_000_000
COVERED = 0.5
_PRIME = 0x9E3779B97F4A7C15


def grams(ids: NDArray[Any], n: int = GRAM) -> NDArray[np.uint64]:
    """A hash of every run of `n` ids, `[len - n + 1]`."""
    if len(ids) < n:
        return np.zeros(0, np.uint64)
    wide = ids.astype(np.uint64) + np.uint64(1)
    count = len(ids) - n + 1
    total = np.zeros(count, np.uint64)
    with np.errstate(over="ignore"):
        for offset in range(n):
            total = total * np.uint64(_PRIME) + wide[offset : offset + count]
        total ^= total >> np.uint64(29)
    return total


def among(marks: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which of `marks` stand in the sorted array `known`."""
    if not len(known):
        return np.zeros(len(marks), np.bool_)
    places = np.minimum(np.searchsorted(known, marks), len(known) - 1)
    found: NDArray[np.bool_] = known[places] == marks
    return found


def overlap(subject: Subject) -> Iterator[Finding]:
    """Validation documents (and benchmark texts) that stand in the training data, whole or in large part; copies inside training."""
    data = subject.extra.get("data")
    if data is None:
        yield from _texts_overlap(subject)
        return
    train = (
        np.concatenate([np.asarray(array)[:TRAIN_TOKENS] for array in data.train.arrays])
        if data.train.arrays
        else np.zeros(0)
    )
    n = run_length(data)
    known = np.unique(grams(train, n))
    yield from _validation(subject, data, known, n)
    yield from _benchmarks(subject, known, n)
    yield from _copies(data)


def run_length(data: Any) -> int:
    """Tokens in a run that is no accident: 13, or as many as make 50 bytes where tokens are short."""
    size = float(data.train.document_bytes.sum()) / max(1, int(data.train.n_tokens))
    return max(GRAM, round(GRAM_BYTES / max(size, 0.5)))


def _digest(ids: NDArray[Any]) -> bytes:
    return hashlib.blake2b(np.asarray(ids, dtype="<u4").tobytes(), digest_size=12).digest()


def _validation(subject: Subject, data: Any, known: NDArray[np.uint64], n: int) -> Iterator[Finding]:
    exact = {_digest(data.train.document(number)) for number in range(data.train.n_documents)}
    total, same, near, seen_tokens = 0, 0, 0, 0
    where, near_where = "", ""
    by_slice: Counter[str] = Counter()
    for number in range(data.val.n_documents):
        ids = np.asarray(data.val.document(number))
        total += 1
        if len(ids) > 2 and _digest(ids) in exact:
            same += 1
            by_slice[data.val.slice_of(number)] += 1
            where = where or f"document {number} ({data.val.slice_of(number)})"
            continue
        if seen_tokens > VAL_TOKENS:
            continue
        seen_tokens += len(ids)
        marks = grams(ids, n)
        if len(marks) < n:
            continue
        covered = float(among(marks, known).mean())
        if covered > COVERED:
            near += 1
            by_slice[data.val.slice_of(number)] += 1
            near_where = near_where or f"document {number} ({data.val.slice_of(number)}), {covered:.0%}"
    allowed = subject.declared.overlap_allowed
    counts = numbers(
        documents=total,
        exact=same,
        near=near,
        share=(same + near) / max(1, total),
        slices=", ".join(sorted(by_slice)),
    )
    if same > allowed * total:
        yield Finding(
            "EVAL-VALIDITY/val-in-train", "stop", "overlap", location=f"validation: {where}", numbers=counts
        )
    elif near / max(1, total) > max(allowed, 0.01) and near > 1:
        grade = grade_if(near / max(1, total) > max(allowed, 0.05))
        yield Finding(
            "EVAL-VALIDITY/val-overlaps-train",
            grade,
            "overlap",
            location=f"validation: {near_where}",
            numbers=counts,
        )


def _benchmarks(subject: Subject, known: NDArray[np.uint64], n: int) -> Iterator[Finding]:
    """Benchmark prompts in the training text, by the same 13-token runs."""
    benchmarks: dict[str, Iterable[str]] = subject.extra.get("benchmarks") or {}
    tokenizer = subject.tokenizer
    if not benchmarks or tokenizer is None:
        return
    for name, texts in benchmarks.items():
        hits, total, first = 0, 0, ""
        for text in texts:
            total += 1
            # The middle of a text: its ends merge with what stands around them.
            ids = np.asarray(tokenizer.encode(text))[1:-1]
            marks = grams(ids, n)
            if len(marks) and float(among(marks, known).mean()) > COVERED:
                hits += 1
                first = first or text[:60]
        if hits > max(subject.declared.overlap_allowed * total, 0):
            yield Finding(
                "EVAL-VALIDITY/benchmark-in-train",
                "stop",
                "overlap",
                location=f"validation: {name}",
                numbers=numbers(name=name, hits=hits, items=total, share=hits / total),
                examples=(first,),
            )


def _copies(data: Any) -> Iterator[Finding]:
    """Exact copies of documents inside the training data: a corpus that was deduplicated has none."""
    counts: Counter[bytes] = Counter()
    sizes: dict[bytes, int] = {}
    first: dict[bytes, int] = {}
    for number in range(data.train.n_documents):
        ids = data.train.document(number)
        key = _digest(ids)
        counts[key] += 1
        sizes[key] = len(ids)
        first.setdefault(key, number)
    surplus = {key: count - 1 for key, count in counts.items() if count > 1}
    if not surplus:
        return
    tokens = sum(sizes[key] * count for key, count in surplus.items())
    share = tokens / max(1, data.train.n_tokens)
    worst = max(surplus, key=lambda key: surplus[key] * sizes[key])
    grade = grade_if(share > 0.01 or surplus[worst] >= 10, "warn" if share > 0.001 else "note")
    yield Finding(
        "CORPUS/copies",
        grade,
        "overlap",
        location=f"documents: {first[worst]} ({data.train.slice_of(first[worst])})",
        numbers=numbers(copies=sum(surplus.values()), share=share, most=surplus[worst] + 1, tokens=tokens),
    )


def _texts_overlap(subject: Subject) -> Iterator[Finding]:
    """For foreign data: `validation_texts` against `texts`, by the same rule on characters' words."""
    held_out = subject.extra.get("validation_texts")
    if not held_out or not subject.texts:
        raise Cannot("no token data, and no validation_texts beside texts")
    train = {_words(text) for _, text in subject.texts}
    runs = {run for text in train for run in _runs(text)}
    same = near = 0
    for text in held_out:
        words = _words(text)
        if words in train:
            same += 1
        else:
            marks = _runs(words)
            near += bool(marks) and sum(mark in runs for mark in marks) / len(marks) > COVERED
    counts = numbers(
        documents=len(held_out), exact=same, near=near, share=(same + near) / len(held_out), slices="text"
    )
    if same:
        yield Finding("EVAL-VALIDITY/val-in-train", "stop", "overlap", location="validation", numbers=counts)
    elif near > 0.01 * len(held_out):
        yield Finding(
            "EVAL-VALIDITY/val-overlaps-train",
            grade_if(near > 0.05 * len(held_out)),
            "overlap",
            location="validation",
            numbers=counts,
        )


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.lower().split())


def _runs(words: tuple[str, ...]) -> list[int]:
    return [hash(words[i : i + GRAM]) for i in range(len(words) - GRAM + 1)]
