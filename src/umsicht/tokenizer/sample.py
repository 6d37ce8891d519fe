"""The stratified sample that merges are learned from: how much of each slice, and which documents.

A sample taken as the corpus lies learns the merges of its largest language and leaves the others to single bytes. Two passes over the
documents: the first counts bytes in each slice, the second takes documents by a hash of their position, so that the choice needs no memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from umsicht.recipe.tokenizer import TokenizerSettings
from umsicht.record.ids import bytes_digest


@dataclass(frozen=True)
class Sample:
    """A document with its labels."""

    text: str
    language: str
    domain: str


class _Labelled(Protocol):
    @property
    def text(self) -> str: ...
    @property
    def language(self) -> str: ...
    @property
    def domain(self) -> str: ...


def slice_of(document: _Labelled) -> str:
    """`domain.language`, the name that figures are kept under."""
    return f"{document.domain}.{document.language}"


@dataclass(frozen=True)
class Stratum:
    """One slice in the sample. Bytes are UTF-8."""

    available_bytes: int
    documents: int
    quota_bytes: float
    weight: float

    @property
    def keep(self) -> float:
        """Share of its documents that are taken."""
        return min(1.0, self.quota_bytes / self.available_bytes) if self.available_bytes else 0.0


@dataclass(frozen=True)
class SamplePlan:
    """Quotas of all slices; `choose` picks the documents."""

    strata: Mapping[str, Stratum]
    seed: int

    @property
    def taken_bytes(self) -> float:
        """Expected size of the sample."""
        return sum(min(stratum.quota_bytes, stratum.available_bytes) for stratum in self.strata.values())

    def choose(self, documents: Iterable[_Labelled]) -> Iterator[str]:
        """Texts of the sample, in the order of `documents`."""
        spent = dict.fromkeys(self.strata, 0.0)
        seen = dict.fromkeys(self.strata, 0)
        for document in documents:
            name = slice_of(document)
            stratum = self.strata.get(name)
            if stratum is None or not document.text:
                continue
            seen[name] += 1
            if stratum.keep >= 1 or _fraction(self.seed, name, seen[name]) < stratum.keep:
                text = document.text
                room = stratum.quota_bytes * 1.05 - spent[name]
                if stratum.keep < 1 and len(text) > room:
                    # One long book must not fill a slice's quota several times over.
                    text = text[: max(0, int(room))]
                spent[name] += len(text.encode())
                if text:
                    yield text

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON: bytes available and taken, weight, share of the sample for each slice."""
        total = self.taken_bytes or 1.0
        return {
            "bytes": round(self.taken_bytes),
            "slices": {
                name: {
                    "available_bytes": stratum.available_bytes,
                    "documents": stratum.documents,
                    "taken_bytes": round(min(stratum.quota_bytes, stratum.available_bytes)),
                    "weight": stratum.weight,
                    "share": min(stratum.quota_bytes, stratum.available_bytes) / total,
                }
                for name, stratum in sorted(self.strata.items())
            },
        }


def plan_sample(settings: TokenizerSettings, documents: Iterable[_Labelled]) -> SamplePlan:
    """Count the slices and divide `settings.sample_bytes` among them; a slice smaller than its quota leaves the rest to the others."""
    available: dict[str, int] = {}
    counts: dict[str, int] = {}
    for document in documents:
        name = slice_of(document)
        available[name] = available.get(name, 0) + utf8_length(document.text)
        counts[name] = counts.get(name, 0) + 1
    weights = _weights(settings, available)
    quotas = fill_quotas(available, weights, settings.sample_bytes)
    return SamplePlan(
        {name: Stratum(available[name], counts[name], quotas[name], weights[name]) for name in available},
        settings.seed,
    )


def utf8_length(text: str) -> int:
    """Bytes of `text` in UTF-8; ASCII text is not encoded to learn that."""
    return len(text) if text.isascii() else len(text.encode())


def _weights(settings: TokenizerSettings, available: Mapping[str, int]) -> dict[str, float]:
    if settings.shares is None:
        powers = {
            name: float(size) ** settings.temperature if size else 0.0 for name, size in available.items()
        }
        total = sum(powers.values()) or 1.0
        return {name: power / total for name, power in powers.items()}
    total_share = sum(settings.shares.values())
    weights = dict.fromkeys(available, 0.0)
    for label, share in settings.shares.items():
        matching = {name: size for name, size in available.items() if label in (name, *name.split(".", 1))}
        size = sum(matching.values())
        for name, own in matching.items():
            weights[name] += share / total_share * own / size if size else 0.0
    return weights


def fill_quotas(
    available: Mapping[str, int], weights: Mapping[str, float], budget: float
) -> dict[str, float]:
    """Divide `budget` by `weights`; what a slice cannot fill goes to the others in proportion to their weights."""
    quotas = dict.fromkeys(available, 0.0)
    open_names = {name for name in available if weights[name] > 0 and available[name]}
    left = budget
    while open_names and left > 0:
        total = sum(weights[name] for name in open_names)
        full = {name for name in open_names if left * weights[name] / total >= available[name]}
        if not full:
            for name in open_names:
                quotas[name] = left * weights[name] / total
            break
        for name in full:
            quotas[name] = float(available[name])
        left -= sum(available[name] for name in full)
        open_names -= full
    return quotas


def _fraction(seed: int, name: str, number: int) -> float:
    return int(bytes_digest(f"{seed} {name} {number}".encode())[:13], 16) / 16**13
