"""What can be said of a `tokenizer.json` without a text: ids that no text can give, special tokens that are ordinary words, ids left to chance, tokens
that reach over words or swallow whole numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from umsicht.findings import Finding, Grade
from umsicht.tokenizer.core import Tokenizer
from umsicht.tokenizer.spelling import entries
from umsicht.tokenizer.vocabulary import spelled

STAGE = "tokenizer"
DEAD_SHARE = 0.01
"""Of the ids: a vocabulary has a few leftovers of its training, and reserved tokens are special ones."""
SPANNING_SHARE = 0.02
NUMBER_SHARE = 0.002
FEWEST = 10
"""Fewer tokens of a kind are no pattern."""
_MARKED = re.compile(r"\W.*\W|\W+", re.S)
"""`<s>`, `[PAD]`, `<|end|>`, `▁<EOT>`: what nobody writes by chance stands between signs."""
_SPANNING = re.compile(r"\w\W*\s\W*\w")
_NUMBER = re.compile(r"\s*\d{4,}")


def findings(tokenizer: Tokenizer) -> list[Finding]:
    """All of them, the worst first."""
    return [
        *_chance(tokenizer),
        *_no_end(tokenizer),
        *_ordinary(tokenizer),
        *_dead(tokenizer),
        *_spanning(tokenizer),
    ]


def _chance(tokenizer: Tokenizer) -> Iterator[Finding]:
    dropout = tokenizer.definition["model"].get("dropout")
    if dropout:
        yield Finding("TOKENIZER/random-ids", "stop", STAGE, "model.dropout", {"dropout": dropout})


def _no_end(tokenizer: Tokenizer) -> Iterator[Finding]:
    if not tokenizer.has_end:
        names = tuple(tokenizer.special)[:5]
        yield Finding("TOKENIZER/no-end-token", "warn", STAGE, "", {"special": len(tokenizer.special)}, names)


def _ordinary(tokenizer: Tokenizer) -> Iterator[Finding]:
    plain = [name for name in tokenizer.special if not _MARKED.fullmatch(name)]
    if plain:
        shown = tuple(repr(name) for name in plain[:5])
        numbers = {"tokens": len(plain), "special": len(tokenizer.special), "first": shown[0]}
        yield Finding("TOKENIZER/special-is-text", "warn", STAGE, plain[0], numbers, shown)


@dataclass(frozen=True)
class Dead:
    """Ids that no text gives: without a token, and with one that no merge leads to."""

    empty: int
    unreachable: list[str]


def dead(definition: dict[str, Any], n_tokens: int) -> Dead:
    """Look for them. Tokens that no merge leads to are told for BPE only."""
    model, added = definition["model"], definition.get("added_tokens", ())
    names = dict(entries(definition))
    used = set(names.values()) | {int(token["id"]) for token in added}
    if model.get("type") != "BPE" or model.get("ignore_merges"):
        return Dead(n_tokens - len(used), [])
    merged = {
        "".join(merge.split(" ") if isinstance(merge, str) else merge) for merge in model.get("merges", ())
    }
    known = merged | {str(token["content"]) for token in added}
    unreachable = [
        name for name in names if len(name) > 1 and name not in known and not re.fullmatch("<.+>", name)
    ]
    return Dead(n_tokens - len(used), unreachable)


def _dead(tokenizer: Tokenizer) -> Iterator[Finding]:
    found = dead(tokenizer.definition, tokenizer.n_tokens)
    ids = found.empty + len(found.unreachable)
    if ids >= FEWEST and ids > DEAD_SHARE * tokenizer.n_tokens:
        numbers = {
            "ids": ids,
            "tokens": tokenizer.n_tokens,
            "empty": found.empty,
            "unreachable": len(found.unreachable),
        }
        yield Finding("TOKENIZER/dead-ids", "warn", STAGE, "", numbers, tuple(found.unreachable[:5]))


def _spanning(tokenizer: Tokenizer) -> Iterator[Finding]:
    """Tokens over several words, and tokens of whole numbers."""
    special = set(tokenizer.special.values())
    texts = [
        tokenizer.token_bytes(n).decode(errors="replace")
        for n in range(tokenizer.n_tokens)
        if n not in special
    ]
    kinds: tuple[tuple[str, Grade, re.Pattern[str], float], ...] = (
        ("TOKENIZER/spans-words", "warn", _SPANNING, SPANNING_SHARE),
        ("TOKENIZER/whole-numbers", "note", _NUMBER, NUMBER_SHARE),
    )
    for code, grade, pattern, share in kinds:
        found = [text for text in texts if pattern.search(text.strip())]
        if len(found) >= FEWEST and len(found) > share * len(texts):
            numbers = {"tokens": len(found), "of": len(texts)}
            shown = tuple(spelled(text.encode()) for text in found[:5])
            yield Finding(code, grade, STAGE, "", numbers, shown)
