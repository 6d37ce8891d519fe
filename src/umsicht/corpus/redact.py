"""Redaction of personal data and secrets inside decoded text: addresses, numbers and keys are replaced by a marker that says what stood there.

It works on text, never on raw JSON, where an escape before a match would break the line. Every pattern has a cheap test before it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence

MARKERS = {"email": "<email>", "phone": "<phone>", "ip": "<ip>", "key": "<key>"}

_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.)+[A-Za-z]{2,24}(?![\w-])")
_PHONE = re.compile(
    r"(?<![\w.,/:-])(?:\+\d{1,3}[ ./-]?(?:\(0\)[ ./-]?)?(?:\(?\d{2,5}\)?[ ./-]?)\d[\d ./-]{4,12}\d"
    r"|\(\d{3}\)[ -]?\d{3}[ -]\d{4}|\d{3}[-.]\d{3}[-.]\d{4}|0\d{2,5}[ /-]\d{2,4}[ -]?\d{2,6}(?:[ -]?\d{2,4})?)(?![\w.,/:-]?\d)"
)
_IP4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")
_IP6 = re.compile(r"(?<![\w:])(?:[0-9A-Fa-f]{1,4}:){3,7}[0-9A-Fa-f]{0,4}(?![\w:])")
_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----"
    r"|(?<!\w)(?:AKIA|ASIA)[0-9A-Z]{16}(?!\w)|(?<!\w)gh[pousr]_[A-Za-z0-9]{36,}|(?<!\w)sk-[A-Za-z0-9_-]{20,}"
    r"|(?<!\w)xox[abprs]-[A-Za-z0-9-]{10,}|(?<!\w)AIza[0-9A-Za-z_-]{35}|(?<!\w)eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"
    r"|(?<!\w)hf_[A-Za-z0-9]{30,}",
    re.S,
)
_PRIVATE_HINTS = (
    *("AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "sk-", "xox", "AIza", "eyJ", "hf_"),
    "PRIVATE KEY",
)
_DIGITS = re.compile(r"\d")


def _email(text: str) -> tuple[str, int]:
    """Addresses hold no white space, so only words with an at sign are looked at."""
    kept, done, found = [], 0, 0
    at = text.find("@")
    while at >= 0:
        start = max(done, text.rfind(" ", done, at) + 1, text.rfind("\n", done, at) + 1)
        ends = [end for end in (text.find(" ", at), text.find("\n", at)) if end >= 0]
        end = min(ends, default=len(text))
        word, n = _EMAIL.subn(MARKERS["email"], text[start:end])
        if n:
            kept += [text[done:start], word]
            done = end
            found += n
        at = text.find("@", end)
    return ("".join([*kept, text[done:]]), found) if found else (text, 0)


def _phone(text: str) -> tuple[str, int]:
    found = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal found
        if not 7 <= len(_DIGITS.findall(match[0])) <= 15:
            return match[0]
        found += 1
        return MARKERS["phone"]

    return _PHONE.sub(replace, text), found


def _ip(text: str) -> tuple[str, int]:
    found = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal found
        try:
            address = ipaddress.ip_address(match[0])
        except ValueError:
            return match[0]
        if not address.is_global:
            return match[0]
        found += 1
        return MARKERS["ip"]

    if "." in text:
        text = _IP4.sub(replace, text)
    if "::" in text or text.count(":") >= 5:
        text = _IP6.sub(replace, text)
    return text, found


def _key(text: str) -> tuple[str, int]:
    return _KEY.subn(MARKERS["key"], text) if any(hint in text for hint in _PRIVATE_HINTS) else (text, 0)


_KINDS: dict[str, Callable[[str], tuple[str, int]]] = {
    "key": _key,
    "email": _email,
    "ip": _ip,
    "phone": _phone,
}


def redact(text: str, kinds: Sequence[str]) -> tuple[str, dict[str, int]]:
    """The text with markers, and how many of each kind were replaced. Addresses that lead nowhere (private networks) stay."""
    counts: dict[str, int] = {}
    for kind, replace in _KINDS.items():
        if kind in kinds:
            text, found = replace(text)
            if found:
                counts[kind] = found
    return text, counts
