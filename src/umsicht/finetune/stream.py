"""Text as it is written: tokens to characters, whole characters only."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterator, Sequence

from umsicht.score import generate
from umsicht.score.sampling import SamplingRule
from umsicht.tokenizer import Tokenizer

from .subject import Subject


def stream_text(
    subject: Subject,
    ids: Sequence[int],
    *,
    rule: SamplingRule,
    max_new_tokens: int,
    seed: int,
    stop_ids: Collection[int],
) -> Iterator[str]:
    """Pieces of text as they become whole characters; the stop token is not shown."""
    stops = set(stop_ids)
    tokens = generate(
        subject.model, ids, max_new_tokens=max_new_tokens, seed=seed, stop_ids=stops, **vars(rule)
    )
    yield from characters((token for token in tokens if token not in stops), subject.tokenizer)


def characters(tokens: Iterator[int], tokenizer: Tokenizer) -> Iterator[str]:
    """Decode token by token; bytes of an unfinished character wait for the rest."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for token in tokens:
        piece = decoder.decode(tokenizer.token_bytes(token))
        if piece:
            yield piece
    rest = decoder.decode(b"", final=True)
    if rest:
        yield rest
