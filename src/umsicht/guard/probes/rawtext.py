"""The raw text: whole classes of characters that are gone, boilerplate, broken encodings; slice by slice."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from umsicht.findings import Finding
from umsicht.findings.finding import Grade
from umsicht.guard.subject import Cannot, Subject, numbers

LETTERS = 4000
CLASSES = ("upper case", "line ends", "tabs", "digits", "punctuation", "beyond ASCII", "double spaces")
_LETTER, _UPPER, _CASED, _DIGIT, _PUNCTUATION = 1, 2, 4, 8, 16
_PLANE = 0x10000


@functools.cache
def _kinds() -> NDArray[np.uint8]:
    """Kinds of every character of the first plane, as bits. Georgian has capitals in the standard that nobody writes."""
    table = np.zeros(_PLANE, np.uint8)
    for number in range(_PLANE):
        char = chr(number)
        georgian = 0x10A0 <= number <= 0x10FF or 0x1C90 <= number <= 0x1CBF
        upper, lower = char.isupper(), char.islower()
        table[number] = (
            _LETTER * char.isalpha()
            + _UPPER * upper
            + _CASED * ((upper or lower) and not georgian)
            + _DIGIT * char.isdigit()
            + _PUNCTUATION * (not char.isalnum() and not char.isspace())
        )
    return table


def census(text: str) -> Counter[str]:
    """How often each class of characters occurs."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    kinds = _kinds()[codes[codes < _PLANE]]
    counts = {
        "characters": len(codes),
        "letters": (kinds & _LETTER).astype(bool).sum(),
        "upper case": (kinds & _UPPER).astype(bool).sum(),
        "cased": (kinds & _CASED).astype(bool).sum(),
        "digits": (kinds & _DIGIT).astype(bool).sum(),
        "punctuation": (kinds & _PUNCTUATION).astype(bool).sum(),
        "beyond ASCII": (codes > 127).sum(),
        "line ends": text.count("\n"),
        "tabs": text.count("\t"),
        "double spaces": text.count("  "),
        "replacement": text.count("\ufffd"),
    }
    return Counter({name: int(count) for name, count in counts.items()})


def raw_text(subject: Subject) -> Iterator[Finding]:
    """Character classes of every slice: gone altogether, or gone on the way from the sources; boilerplate; broken encodings."""
    slices: dict[str, Counter[str]] = defaultdict(Counter)
    lines: dict[str, Counter[str]] = defaultdict(Counter)
    documents: Counter[str] = Counter()
    for name, text in _sample(subject):
        slices[name] += census(text)
        documents[name] += 1
        lines[name].update({line.strip() for line in text.splitlines() if len(line.strip()) >= 30})
        slices[name]["empty"] += not text.strip()
    if not slices:
        raise Cannot("no texts were given")
    raw: dict[str, Counter[str]] = defaultdict(Counter)
    for name, text in subject.extra.get("raw_texts") or ():
        raw[name] += census(text)
    for name, found in slices.items():
        yield from _gone(name, found, raw.get(name))
        yield from _boilerplate(name, lines[name], documents[name], found)


def _sample(subject: Subject) -> Iterator[tuple[str, str]]:
    """At most 400,000 characters of each slice, from documents all over it."""
    taken: Counter[str] = Counter()
    for name, text in subject.texts:
        if taken[name] < 400_000:
            taken[name] += len(text)
            yield name, text[:50_000]


def _gone(name: str, found: Counter[str], raw: Counter[str] | None) -> Iterator[Finding]:
    """Rules that hold for any natural text of enough length; with the raw text beside it, any class that vanished."""
    missing = ""
    share = before = 0.0
    # Without the source, or where the source lacks the class as well, it was lost before us, if at all.
    grade: Grade = "warn"
    if found["cased"] > LETTERS and found["upper case"] < 2e-4 * found["cased"]:
        missing, share = "upper case", found["upper case"] / found["cased"]
    elif (
        found["cased"] > max(LETTERS, 0.5 * found["letters"])
        and found["characters"] > 20_000
        and found["punctuation"] < 1e-3 * found["characters"]
    ):
        missing, share = "punctuation", found["punctuation"] / found["characters"]
    if raw is not None and raw["characters"] > 2000:
        for kind in CLASSES:
            was, now = raw[kind] / raw["characters"], found[kind] / max(1, found["characters"])
            if was > 2e-4 and raw[kind] > 60 and now < 0.2 * was:
                # White space in prose is tidied on purpose; in code it is the code.
                tidied = kind in ("tabs", "double spaces") and not name.startswith("code")
                missing, share, before = kind, now, was
                grade = "warn" if tidied else "stop"
                break
    if missing:
        yield Finding(
            "TEXT-LOSS/class-gone" if grade == "stop" else "TEXT-LOSS/class-absent",
            grade,
            "raw-text",
            location=f"raw text: {name}",
            numbers=numbers(
                slice=name, kind=missing, share=share, before=before, characters=found["characters"]
            ),
        )
    broken = found["replacement"] / max(1, found["characters"])
    if broken > 1e-3:
        yield Finding(
            "CORPUS/broken-encoding",
            "warn",
            "raw-text",
            location=f"raw text: {name}",
            numbers=numbers(share=broken, slice=name),
        )


def _boilerplate(name: str, lines: Counter[str], documents: int, found: Counter[str]) -> Iterator[Finding]:
    """Lines that stand in a large part of all documents."""
    if documents < 20 or not lines:
        return
    line, times = lines.most_common(1)[0]
    repeated = sum(count * len(text) for text, count in lines.items() if count > max(5, 0.05 * documents))
    share = repeated / max(1, found["characters"])
    if times > 0.2 * documents and share > 0.02:
        yield Finding(
            "CORPUS/boilerplate",
            "warn",
            "raw-text",
            location=f"raw text: {name}",
            numbers=numbers(slice=name, documents=documents, times=times, share=share),
            examples=(line[:80],),
        )
