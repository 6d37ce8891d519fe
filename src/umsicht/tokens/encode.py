"""Documents to ids on all processors, in order: the tokenizer releases the interpreter lock, so threads are enough."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from umsicht.tokenizer.core import Tokenizer, n_threads

CHUNK_CHARACTERS = 400_000
CHUNK_DOCUMENTS = 512


class Labelled(Protocol):
    """What is read of a document."""

    @property
    def text(self) -> str: ...
    @property
    def language(self) -> str: ...
    @property
    def domain(self) -> str: ...
    @property
    def source(self) -> str: ...


Encoded = tuple[Labelled, NDArray[np.uint32], int]


def encode_documents(
    tokenizer: Tokenizer, documents: Iterable[Labelled], threads: int | None = None
) -> Iterator[Encoded]:
    """Each document with its ids (end token included, uint32) and the UTF-8 bytes of its text, in the given order.

    Memory is bounded: at most two chunks a thread are in flight. Documents without text are left out.
    """
    workers = threads or n_threads()
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[list[Encoded]]] = deque()
        for chunk in _chunks(documents):
            waiting.append(pool.submit(_encode_chunk, tokenizer, chunk))
            if len(waiting) > 2 * workers:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()


def _encode_chunk(tokenizer: Tokenizer, chunk: list[Labelled]) -> list[Encoded]:
    end = np.asarray([tokenizer.eos_id], dtype=np.uint32)
    encoded = []
    for document in chunk:
        text = document.text
        ids = np.concatenate([tokenizer.encode_array(text), end])
        encoded.append((document, ids, len(text) if text.isascii() else len(text.encode())))
    return encoded


def _chunks(documents: Iterable[Labelled]) -> Iterator[list[Labelled]]:
    chunk: list[Labelled] = []
    size = 0
    for document in documents:
        if not document.text:
            continue
        chunk.append(document)
        size += len(document.text)
        if size >= CHUNK_CHARACTERS or len(chunk) >= CHUNK_DOCUMENTS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
