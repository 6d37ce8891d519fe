"""The held-out excerpts: which raw bytes are scored, by the model and by everything it is compared with.

They are chosen once per corpus, by document hash, and written to the artifact: the same bytes whatever the tokenizer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import orjson

from umsicht.record.ids import content_id
from umsicht.tokens.pooling import pools

FILE = "heldout.jsonl"


class HasText(Protocol):
    """What is asked of a corpus document."""

    @property
    def id(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def slice(self) -> str: ...


@dataclass(frozen=True)
class Excerpt:
    """Held-out text of one document: the whole of it, or its beginning (`whole` is False: its end is no document end)."""

    id: str
    slice: str
    text: str
    whole: bool

    @property
    def data(self) -> bytes:
        """The raw UTF-8 bytes, which bits per byte are counted over."""
        return self.text.encode("utf-8")


def choose(documents: Iterable[HasText], bytes_per_slice: int) -> list[Excerpt]:
    """At most `bytes_per_slice` raw bytes of each slice, documents in the order of their ids, long ones cut at a quarter of it.

    Ids are hashes, so the order is as good as random and the same everywhere. Small slices are pooled by the rule of the tokens
    stage, so that curves and evaluations speak of the same slices.
    """
    by_slice: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for document in documents:
        if document.text:
            by_slice[document.slice].append((document.id, document.text))
    sizes = {
        name: sum(len(text.encode("utf-8")) for _, text in members) for name, members in by_slice.items()
    }
    names = pools(sizes)
    pooled: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, members in by_slice.items():
        pooled[names.get(name, name)] += members
    return [
        e for name, members in sorted(pooled.items()) for e in _fill(name, sorted(members), bytes_per_slice)
    ]


def pooled(documents: Sequence[HasText]) -> dict[str, str]:
    """Small slices, each with the name it is scored under."""
    sizes: dict[str, int] = defaultdict(int)
    for document in documents:
        sizes[document.slice] += len(document.text.encode("utf-8"))
    return dict(sorted(pools(sizes).items()))


def _size(texts: Iterable[str]) -> int:
    return sum(len(text.encode("utf-8")) for text in texts)


def _fill(name: str, members: Sequence[tuple[str, str]], limit: int) -> Iterator[Excerpt]:
    longest, left = max(1, limit // 4), limit
    for identity, text in members:
        if left <= 0:
            return
        cut = _cut(text, min(longest, left))
        left -= len(cut.encode("utf-8"))
        if cut:
            yield Excerpt(identity, name, cut, len(cut) == len(text))


def _cut(text: str, limit: int) -> str:
    """The longest beginning of `text` with at most `limit` UTF-8 bytes; never half a character."""
    data = text.encode("utf-8")
    return text if len(data) <= limit else data[:limit].decode("utf-8", errors="ignore")


def digest(excerpts: Sequence[Excerpt]) -> str:
    """Names the bytes that are scored: part of every evaluation's protocol."""
    return content_id([[e.id, e.slice, e.whole, e.text] for e in excerpts])


def save(excerpts: Sequence[Excerpt], folder: Path) -> None:
    rows = (
        orjson.dumps({"id": e.id, "slice": e.slice, "whole": e.whole, "text": e.text}) + b"\n"
        for e in excerpts
    )
    (folder / FILE).write_bytes(b"".join(rows))


def load(folder: Path) -> list[Excerpt]:
    """The excerpts of a baselines artifact, in order."""
    lines = (folder / FILE).read_bytes().splitlines()
    return [Excerpt(**orjson.loads(line)) for line in lines if line]
