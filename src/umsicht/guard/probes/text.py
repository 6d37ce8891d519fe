"""T1: text must survive its way to ids and back: a fixed adversarial set, and documents of every slice."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator

from umsicht.findings import Finding
from umsicht.guard.subject import Cannot, Subject, numbers
from umsicht.tokenizer.adversarial import CASES

STAGE = "round-trip"
SAMPLE = 1000
SAMPLE_BYTES = 400_000

Encode = Callable[[str], list[int]]
Decode = Callable[[list[int]], str]


def coder(tokenizer: object) -> tuple[Encode, Decode]:
    """encode and decode of any tokenizer, nothing added, nothing left out, nothing cleaned up beyond its own defaults."""
    encode = getattr(tokenizer, "encode", None)
    decode = getattr(tokenizer, "decode", None)
    if not callable(encode) or not callable(decode):
        raise Cannot("the tokenizer has no encode and decode")
    kind = type(tokenizer).__module__

    def to_ids(text: str) -> list[int]:
        if kind.startswith("transformers"):
            return list(encode(text, add_special_tokens=False))
        if kind.startswith("tokenizers"):
            return list(encode(text, add_special_tokens=False).ids)
        if hasattr(tokenizer, "encode_ordinary"):
            return list(tokenizer.encode_ordinary(text))
        found = encode(text)
        found = getattr(found, "ids", found)
        return [int(value) for value in (found.tolist() if hasattr(found, "tolist") else found)]

    def to_text(ids: list[int]) -> str:
        if kind.startswith("tokenizers"):
            return str(decode(ids, skip_special_tokens=False))
        try:
            return str(decode(ids))
        except TypeError:
            import torch

            return str(decode(torch.tensor(ids)))

    return to_ids, to_text


def declared_form(text: str, lossy: str) -> str:
    """What a declared normaliser may make of a text."""
    if lossy == "nfc":
        return unicodedata.normalize("NFC", text)
    if lossy == "nfkc":
        return unicodedata.normalize("NFKC", text)
    if lossy == "lower":
        return text.lower()
    if lossy == "strip":
        return text.strip()
    return text


def kind_of_change(before: str, after: str) -> str:
    """A word for the first difference: what sort of character was lost."""
    position = first_difference(before, after)
    char = before[position : position + 1]
    if not char:
        return "length"
    if char in "\t\r\n\v\f":
        return "tabs and line ends"
    if char.isspace():
        return "white space"
    if after[position : position + 1] and char.lower() == after[position].lower() and char != after[position]:
        return "letter case"
    if unicodedata.normalize("NFKC", char) != char or unicodedata.combining(char):
        return "compatibility or combining characters"
    if ord(char) > 127:
        return "characters beyond ASCII"
    return "digits" if char.isdigit() else "punctuation" if not char.isalnum() else "letters"


def first_difference(before: str, after: str) -> int:
    """Index of the first character that differs."""
    for position, (left, right) in enumerate(zip(before, after, strict=False)):
        if left != right:
            return position
    return min(len(before), len(after))


def same_text(returned: str, text: str, lossy: str) -> bool:
    """Equal, or equal to what the declaration allows."""
    return returned == text or returned == declared_form(text, lossy)


def round_trip(subject: Subject) -> Iterator[Finding]:
    """Every adversarial case and up to 1,000 documents of every slice, byte for byte."""
    if subject.tokenizer is None:
        raise Cannot("no tokenizer was given")
    encode, decode = coder(subject.tokenizer)
    lossy = subject.declared.lossy
    changed: dict[str, list[tuple[str, str, str]]] = {}
    tried = broken = 0
    known = _usable_cases(subject)
    for name, text in [*known, *_documents(subject)]:
        tried += 1
        try:
            returned = decode(encode(text))
        except Exception as error:  # a foreign tokenizer may raise anything; that is a loss too
            returned = f"\x00{type(error).__name__}"
        if not same_text(returned, text, lossy):
            broken += 1
            changed.setdefault(kind_of_change(text, returned), []).append((name, text, returned))
    documents = {kind: sum(1 for case in cases if case[0] not in CASES) for kind, cases in changed.items()}
    if changed:
        kind = max(changed, key=lambda key: (documents[key], len(changed[key])))
        name, before, after = changed[kind][0]
        place = first_difference(before, after)
        yield Finding(
            "TEXT-LOSS/round-trip",
            "stop",
            STAGE,
            location=f"tokenizer: {name}",
            numbers=numbers(
                texts=broken,
                tried=tried,
                kind=kind,
                kinds=", ".join(sorted(changed)),
                position=place,
                documents=documents[kind],
            ),
            examples=tuple(_shown(case) for case in changed[kind][:3]),
        )
        return
    yield from _batch_equals_single(subject, encode)
    yield from _unknown(subject, encode)


def _usable_cases(subject: Subject) -> list[tuple[str, str]]:
    """All cases for a byte-level tokenizer. One that was built from few characters can only be asked for those."""
    alphabet = subject.extra.get("alphabet")
    if alphabet is None:
        return list(CASES.items())
    return [(name, "".join(char for char in text if char in alphabet)) for name, text in CASES.items()]


def _documents(subject: Subject) -> Iterator[tuple[str, str]]:
    taken: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for name, text in subject.texts:
        if taken.get(name, 0) >= SAMPLE or sizes.get(name, 0) > SAMPLE_BYTES:
            continue
        taken[name] = taken.get(name, 0) + 1
        sizes[name] = sizes.get(name, 0) + len(text)
        yield name, text


def _shown(case: tuple[str, str, str]) -> str:
    name, before, after = case
    place = first_difference(before, after)
    return f"{name}: {before[place : place + 16]!r} → {after[place : place + 16]!r}"


def _batch_equals_single(subject: Subject, encode: Encode) -> Iterator[Finding]:
    """The path that builds the data must give the ids that the path at inference gives."""
    batch = getattr(subject.tokenizer, "encode_batch", None)
    if not callable(batch):
        return
    texts = [text for _, text in list(_documents(subject))[:64]] + list(CASES.values())
    together = [getattr(found, "ids", found) for found in batch(texts)]
    if type(subject.tokenizer).__module__.startswith("tokenizers"):
        return
    for index, (one, text) in enumerate(zip(together, texts, strict=True)):
        if list(one) != encode(text):
            yield Finding(
                "TEXT-LOSS/two-paths",
                "stop",
                STAGE,
                location="tokenizer: encode_batch",
                numbers=numbers(text=index, tried=len(texts)),
            )
            return


def _unknown(subject: Subject, encode: Encode) -> Iterator[Finding]:
    """Share of the unknown token in the documents: whole words may be lost without any error."""
    from umsicht.guard.subject import token_id

    unknown = token_id(subject.tokenizer, "unk")
    if unknown is None:
        return
    total = lost = 0
    for _, text in _documents(subject):
        ids = encode(text)
        total += len(ids)
        lost += sum(1 for value in ids if value == unknown)
        if total > 300_000:
            break
    if total and lost:
        share = lost / total
        yield Finding(
            "TEXT-LOSS/unknown",
            "stop" if share > 1e-3 else "warn",
            STAGE,
            location="tokenizer: unknown token",
            numbers=numbers(share=share, unknown=lost, tokens=total),
        )
