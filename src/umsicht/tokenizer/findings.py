"""Findings about a tokenizer: languages that its sample lacks, languages that cost too much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from umsicht.findings import Finding
from umsicht.recipe.tokenizer import TokenizerSettings
from umsicht.tokenizer.fertility import Fertility
from umsicht.tokenizer.parallel import ParallelCost
from umsicht.tokenizer.vocabulary import VocabularyReport

MIN_SAMPLE_BYTES = 20_000
JUNK_SHARE = 0.01
NOTICEABLE_SHARE = 0.01


def missing(
    settings: TokenizerSettings, fertility: Mapping[str, Fertility], sample: Mapping[str, Any]
) -> list[Finding]:
    """Declared languages (or those of the held-out text) of which the sample has nothing, or next to nothing."""
    taken: dict[str, int] = {}
    for name, stratum in sample["slices"].items():
        language = name.rpartition(".")[2]
        taken[language] = taken.get(language, 0) + stratum["taken_bytes"]
    declared = settings.languages or sorted({name.rpartition(".")[2] for name in fertility})
    found = []
    for language in declared:
        have = taken.get(language, 0)
        if have < MIN_SAMPLE_BYTES and have < 0.001 * max(1, sample["bytes"]):
            found.append(
                Finding(
                    "TOKENIZER/language-missing",
                    "stop" if language in settings.languages else "warn",
                    "tokenizer",
                    language,
                    {"language": language, "bytes": have, "sample_bytes": sample["bytes"]},
                )
            )
    return found


def judged_languages(
    settings: TokenizerSettings, fertility: Mapping[str, Fertility], sample: Mapping[str, Any] | None
) -> list[str]:
    """The declared languages; without a declaration those that make up at least 1 % of the sample, or all of the held-out text."""
    if settings.languages:
        return list(settings.languages)
    if sample is None:
        return sorted({name.rpartition(".")[2] for name in fertility})
    shares: dict[str, float] = {}
    for name, stratum in sample["slices"].items():
        language = name.rpartition(".")[2]
        shares[language] = shares.get(language, 0.0) + stratum["share"]
    return sorted(language for language, share in shares.items() if share >= NOTICEABLE_SHARE)


def expensive(costs: Sequence[ParallelCost], ratio: float) -> list[Finding]:
    """One finding for the languages that need more than `ratio` times the tokens of the cheapest one for the same sentences."""
    dear = [cost for cost in costs if cost.ratio > ratio]
    if not dear:
        return []
    worst = dear[-1]
    numbers = {
        "language": worst.language,
        "ratio": round(worst.ratio, 2),
        "cheapest": costs[0].language,
        "limit": ratio,
        "languages": len(dear),
    }
    shown = tuple(f"{cost.language} × {cost.ratio:.2f}" for cost in reversed(dear))
    return [
        Finding(
            "TOKENIZER/language-expensive",
            "warn",
            "tokenizer",
            ", ".join(c.language for c in dear),
            numbers,
            shown,
        )
    ]


def junk(inside: VocabularyReport) -> list[Finding]:
    """Vocabulary spent on memorised formatting: more than 1 % of the tokens look like it."""
    share = inside.n_junk / max(1, inside.n_tokens)
    if share <= JUNK_SHARE:
        return []
    numbers = {"tokens": inside.n_junk, "share": round(100 * share, 2)}
    return [Finding("TOKENIZER/junk-tokens", "note", "tokenizer", "", numbers, tuple(inside.junk[:5]))]
