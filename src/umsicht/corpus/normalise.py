"""From bytes to text, and from text to clean text. Lossless by default: nothing a reader would miss is changed.

What is removed are byte-order marks, NUL and other control characters (tab and line feed stay), and blank lines around a document; line endings
become line feeds. Composition (NFC) is done only where a recipe asks for it.
"""

from __future__ import annotations

import re
import unicodedata

from umsicht.recipe.corpus import NormaliseSettings

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f\ufeff\ufffe\uffff]|[\ud800-\udfff]")
_LINE_END = re.compile("\r\n?|\x85|\u2028|\u2029")
_MOJIBAKE = re.compile("[ÃÂÐÑØÙ][\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ¡-¿]|â€|ï»¿|ã[\x80-\xbf€‚ƒ„…†‡]|ðŸ")
_MOJIBAKE_HINTS = ("Ã", "Â", "Ð", "Ñ", "Ø", "Ù", "â€", "ï»¿", "ã", "ðŸ")
_LINE_ENDS = ("\r", "\x85", "\u2028", "\u2029")
_ASCII_CONTROL = bytes([*range(9), 11, 12, *range(14, 32), 127])
_RARE_CONTROL = re.compile(b"\xc2[\x80-\x9f]|\xef\xbb\xbf|\xef\xbf[\xbe\xbf]")
MOJIBAKE_SHARE = 1 / 2_000
"""One suspicious pair in so many characters, and at least two of them, before the repair (slow) is tried."""


class Undecodable(ValueError):
    """Bytes that are text in no encoding that can be told."""


def decode(data: bytes) -> tuple[str, str]:
    """Text and the name of the encoding it was in. Raises `Undecodable`.

    UTF-8 first; byte-order marks are believed; otherwise the encoding is detected, and the result must look like text.
    """
    for mark, encoding in ((b"\xff\xfe\x00\x00", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            try:
                return data.decode(encoding), encoding
            except UnicodeDecodeError as error:
                raise Undecodable(f"{encoding}: {error.reason} at byte {error.start}") from error
    try:
        return data.decode("utf-8-sig"), "utf-8"
    except UnicodeDecodeError as error:
        first = error
    encoding = _detect(data)
    if encoding:
        try:
            text = data.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            text = ""
        if text and len(_CONTROL.findall(text)) * 1_000 <= len(text):
            return text, encoding
    raise Undecodable(f"utf-8: {first.reason} at byte {first.start}")


def _detect(data: bytes) -> str:
    from resiliparse.parse.encoding import detect_encoding

    found = str(detect_encoding(data[:100_000]) or "").lower()
    return "" if found in ("utf-8", "ascii", "binary") else found


def normalise(text: str, settings: NormaliseSettings) -> str:
    """The text that is stored, hashed and trained on. Clean text costs no more than a few scans of its bytes."""
    if settings.repair_mojibake and _looks_broken(text):
        text = _repair(text)
    if any(sign in text for sign in _LINE_ENDS):
        text = _LINE_END.sub("\n", text)
    if _has_control(text):
        text = _CONTROL.sub("", text)
    if settings.unicode == "nfc" and not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return strip_blank_lines(text)


def without_surrogates(text: str) -> str:
    """Halves of surrogate pairs are no characters and cannot be stored."""
    return _CONTROL.sub("", text)


def strip_blank_lines(text: str) -> str:
    """Text without blank lines around it; the indentation of its first line stays."""
    text = text.rstrip()
    start = 0
    while (end := text.find("\n", start)) >= 0 and not text[start:end].strip():
        start = end + 1
    return text[start:]


def _has_control(text: str) -> bool:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return True
    if len(data.translate(None, _ASCII_CONTROL)) != len(data):
        return True
    return not text.isascii() and _RARE_CONTROL.search(data) is not None


def _looks_broken(text: str) -> bool:
    if text.isascii():
        return False
    if not any(sign in text for sign in _MOJIBAKE_HINTS):
        return False
    found = len(_MOJIBAKE.findall(text))
    return found >= 2 and found >= len(text) * MOJIBAKE_SHARE


def _repair(text: str) -> str:
    import ftfy

    return "\n".join(ftfy.fix_encoding(line) for line in text.split("\n"))
