"""The regular expressions that cut text before merging, under the names llama.cpp knows them by.

A model file names its pre-tokenizer; llama.cpp then cuts text with its own copy of the expression. Another expression would give other
ids there than here, without an error.
"""

from __future__ import annotations

import functools

_LETTERS_AND_MARKS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

PATTERNS: dict[str, str] = {
    "qwen2": _LETTERS_AND_MARKS.format(digits=r"\p{N}"),
    "llama-bpe": _LETTERS_AND_MARKS.format(digits=r"\p{N}{1,3}"),
    "gpt-2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
}
"""llama.cpp's name → expression."""

# Hugging Face's ByteLevel with use_regex cuts like gpt-2; some published files write the same expression differently.
_SPELLINGS = {
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt-2",
    **{pattern: name for name, pattern in PATTERNS.items()},
}


def name_of(pattern: str) -> str | None:
    """llama.cpp's name for an expression, or None where it knows none."""
    return _SPELLINGS.get(pattern)


@functools.cache
def byte_to_char() -> dict[int, str]:
    """GPT-2's printable stand-in for each byte (Radford et al. 2019, `encoder.py: bytes_to_unicode`)."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {byte: chr(byte) for byte in kept}
    for offset, byte in enumerate(byte for byte in range(256) if byte not in table):
        table[byte] = chr(256 + offset)
    return table


@functools.cache
def char_to_byte() -> dict[str, int]:
    """The inverse of `byte_to_char`."""
    return {char: byte for byte, char in byte_to_char().items()}


def to_bytes(token: str) -> bytes:
    """The bytes that a byte-level token spells. Raises KeyError for a character that stands for no byte."""
    table = char_to_byte()
    return bytes(table[char] for char in token)


def to_chars(raw: bytes) -> str:
    """The printable spelling of raw bytes."""
    table = byte_to_char()
    return "".join(table[byte] for byte in raw)
