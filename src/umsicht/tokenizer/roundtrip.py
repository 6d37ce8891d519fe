"""There and back: every text must come out of the tokenizer as it went in."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from umsicht.findings import Finding, Grade
from umsicht.tokenizer.adversarial import CASES, every_byte
from umsicht.tokenizer.core import Tokenizer

COMPOSED = "composed form"
"""The kind of a change that no reader can see: the same characters, composed (NFC) or taken apart."""


@dataclass(frozen=True)
class Difference:
    """The first place where a text changed on its way through the tokenizer."""

    name: str
    position: int
    before: str
    after: str
    kind: str


def first_difference(tokenizer: Tokenizer, name: str, text: str) -> Difference | None:
    """Encode, decode, compare; None where nothing changed."""
    returned = tokenizer.decode(tokenizer.encode(text))
    if returned == text:
        return None
    position = next(
        (i for i, (a, b) in enumerate(zip(text, returned, strict=False)) if a != b),
        min(len(text), len(returned)),
    )
    return Difference(
        name,
        position,
        text[position : position + 12],
        returned[position : position + 12],
        COMPOSED if _composed(text) == _composed(returned) else _kind(text, position),
    )


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def round_trip(tokenizer: Tokenizer, documents: Iterable[tuple[str, str]] = ()) -> list[Difference]:
    """The adversarial set, then `documents` as (name, text): the first difference of each text that changed."""
    differences = []
    for name, text in (*CASES.items(), *documents):
        found = first_difference(tokenizer, name, text)
        if found is not None:
            differences.append(found)
    return differences


def bytes_are_exact(tokenizer: Tokenizer, texts: Iterable[str]) -> bool:
    """Whether the raw bytes of a text's ids add up to the bytes of the text: what bits per byte rests on."""
    return all(
        b"".join(tokenizer.token_bytes(number) for number in tokenizer.encode(text)) == text.encode()
        for text in texts
    )


def missing_bytes(tokenizer: Tokenizer) -> list[int]:
    """Byte values that no single id spells: text that holds them cannot be written."""
    special = set(tokenizer.special.values())
    have = {tokenizer.token_bytes(number) for number in range(tokenizer.n_tokens) if number not in special}
    return [value for value in every_byte()[:256] if bytes([value]) not in have]


def findings(tokenizer: Tokenizer, documents: Iterable[tuple[str, str]] = ()) -> list[Finding]:
    """TEXT-LOSS findings: changed texts (grouped by what changed), and bytes that cannot be written."""
    found = []
    groups: dict[str, list[Difference]] = {}
    for difference in round_trip(tokenizer, documents):
        groups.setdefault(difference.kind, []).append(difference)
    for kind, members in groups.items():
        first = members[0]
        grade: Grade = "note" if kind == COMPOSED else "stop"
        numbers: Mapping[str, object] = {"texts": len(members), "kind": kind, "position": first.position}
        shown = tuple(f"{m.name}: {m.before!r} → {m.after!r}" for m in members[:3])
        found.append(Finding("TEXT-LOSS/round-trip", grade, "tokenizer", first.name, numbers, shown))
    absent = missing_bytes(tokenizer)
    if absent:
        found.append(
            Finding(
                "TEXT-LOSS/missing-bytes",
                "stop",
                "tokenizer",
                "",
                {"bytes": len(absent), "first": f"0x{absent[0]:02x}"},
            )
        )
    return found


def _kind(text: str, position: int) -> str:
    """The Unicode category of the first changed character, in the words of the standard's two-letter code."""
    if position >= len(text):
        return "length"
    char = text[position]
    if char.isspace():
        return "white space"
    if unicodedata.normalize("NFKC", char) != char:
        return "compatibility character"
    return {
        "L": "letter",
        "M": "mark",
        "N": "number",
        "P": "punctuation",
        "S": "symbol",
        "Z": "white space",
        "C": "control",
    }[unicodedata.category(char)[0]]
