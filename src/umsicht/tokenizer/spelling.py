"""The bytes that a token of a `tokenizer.json` stands for. Files spell them in three ways: by GPT-2's printable stand-ins, as text with `▁` for a
space and `<0x0A>` for single bytes (SentencePiece), or as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from umsicht.tokenizer import pretokenize

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_BLANK = "▁"


def speller(definition: Mapping[str, Any]) -> Callable[[str], bytes]:
    """What turns a token of this definition into bytes."""
    kinds = {part["type"] for part in parts(definition, "decoder", "pre_tokenizer")}
    if "ByteLevel" in kinds:
        return _byte_level
    has_bytes = bool(definition["model"].get("byte_fallback"))
    has_blanks = "Metaspace" in kinds or any(
        part.get("pattern", {}).get("String") == _BLANK for part in parts(definition, "decoder")
    )

    def spelled(token: str) -> bytes:
        byte = _BYTE.fullmatch(token) if has_bytes else None
        if byte:
            return bytes([int(byte[1], 16)])
        return (token.replace(_BLANK, " ") if has_blanks else token).encode()

    return spelled


def entries(definition: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """(token, id) of the model's vocabulary: a table, or for Unigram a list of tokens with their scores."""
    vocabulary = definition["model"]["vocab"]
    if isinstance(vocabulary, dict):
        yield from vocabulary.items()
    else:
        yield from ((entry[0], number) for number, entry in enumerate(vocabulary))


def parts(definition: Mapping[str, Any], *sections: str) -> Iterator[Mapping[str, Any]]:
    """The steps of some sections, sequences opened."""
    for section in sections:
        outer = definition.get(section) or {}
        inner = next(
            (outer[key] for key in ("pretokenizers", "decoders", "normalizers") if key in outer), None
        )
        yield from (part for part in ([outer] if inner is None else inner) if "type" in part)


def _byte_level(token: str) -> bytes:
    """Tokens that were added by hand are spelled as text."""
    try:
        return pretokenize.to_bytes(token)
    except KeyError:
        return token.encode()
