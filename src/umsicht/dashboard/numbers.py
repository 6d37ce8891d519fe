"""Numbers as people of one language write them. Only pages use this: files, JSON and CSV keep the C locale."""

from __future__ import annotations

import math
import re

from umsicht.words import localise

NARROW = "\u202f"
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def number(value: object, lang: str, digits: int = 3) -> str:
    """A measured figure: fixed decimals in the ordinary range, powers of ten outside it."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "–" if value is None else str(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if isinstance(value, int) or (value == int(value) and abs(value) >= 1000):
        return minus(localise(f"{int(value):,}", lang))
    if value and (abs(value) < 10**-digits or abs(value) >= 1e7):
        mantissa, exponent = f"{value:.1e}".split("e")
        return minus(f"{localise(mantissa, lang)}×10{superscript(int(exponent))}")
    return minus(localise(f"{value:,.{digits}f}", lang))


def minus(text: str) -> str:
    return text.replace("-", "−", 1) if text.startswith("-") else text


def superscript(exponent: int) -> str:
    return str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def signed(value: float, lang: str, digits: int = 3) -> str:
    text = number(value, lang, digits)
    return text if value < 0 or not math.isfinite(value) else "+" + text


def compact(value: object, lang: str) -> str:
    """Three significant digits with an SI prefix: `52.1 k`, `1.24 M`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return number(value, lang)
    for size, prefix in _PREFIXES:
        if abs(value) >= size:
            scaled = value / size
            digits = 0 if abs(scaled) >= 100 else 1 if abs(scaled) >= 10 else 2
            return minus(localise(f"{scaled:.{digits}f}", lang)) + NARROW + prefix
    return number(value, lang, 0 if isinstance(value, int) or value == int(value) else 2)


def size(n_bytes: float, lang: str) -> str:
    return f"{compact(float(n_bytes), lang)}B" if n_bytes >= 1000 else f"{int(n_bytes)}{NARROW}B"


def percent(share: float | None, lang: str, digits: int = 1) -> str:
    if share is None or not math.isfinite(share):
        return "–"
    return minus(localise(f"{share * 100:.{digits}f}", lang)) + NARROW + "%"


def duration(seconds: float | None) -> str:
    """Hours, minutes and seconds in symbols that both languages share: `3 h 10 min`."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return "–"
    whole = round(seconds)
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, secs = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (secs, "s")]
    while len(parts) > 1 and not parts[0][0]:
        parts.pop(0)
    return " ".join(f"{n}{NARROW}{unit}" for n, unit in parts[:2])


def localised_sentence(sentence: str, lang: str) -> str:
    """A sentence of another room, which writes numbers in C notation, with the decimal mark of `lang`."""
    return re.sub(r"(?<![\w.])(\d+)\.(\d+)(?![\w.]*\.\d)", r"\1,\2", sentence) if lang == "de" else sentence
