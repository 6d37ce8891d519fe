"""Findings about a tokenizer: languages that its sample lacks, languages that cost too much."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from umsicht.findings import Finding
from umsicht.recipe.tokenizer import TokenizerSettings
from umsicht.tokenizer.fertility import Fertility

MIN_SAMPLE_BYTES = 20_000
MIN_MEASURED_BYTES = 2_000


def judge(
    settings: TokenizerSettings, fertility: Mapping[str, Fertility], sample: Mapping[str, Any]
) -> list[Finding]:
    """TOKENIZER findings. `fertility` is by slice on held-out text, `sample` the sample's report (`SamplePlan.to_dict`)."""
    return [*missing(settings, fertility, sample)]


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
            grade = "stop" if language in settings.languages else "warn"
            found.append(
                Finding(
                    "TOKENIZER/language-missing",
                    "stop" if grade == "stop" else "warn",
                    "tokenizer",
                    language,
                    {"language": language, "bytes": have, "sample_bytes": sample["bytes"]},
                )
            )
    return found
