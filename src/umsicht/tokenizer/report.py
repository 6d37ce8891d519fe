"""What a tokenizer costs in each language and domain, measured on text that it was not trained on."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from umsicht.recipe.tokenizer import TokenizerSettings
from umsicht.tokenizer import findings as judge
from umsicht.tokenizer import parallel, references, roundtrip, structure, vocabulary
from umsicht.tokenizer.core import Tokenizer
from umsicht.tokenizer.fertility import NOTHING, measure
from umsicht.tokenizer.sample import Sample

SLICE_BYTES = 1_000_000
SLICE_DOCUMENTS = 2_000
EQUAL_IDS_BYTES = 20_000


def report(
    tokenizer: Tokenizer,
    settings: TokenizerSettings,
    held_out: Iterable[Sample],
    *,
    sample: dict[str, Any] | None,
) -> dict[str, Any]:
    """Fertility a slice, round trip, equal ids of both engines, and the findings drawn from them; plain JSON. `sample` is None for a foreign tokenizer."""
    documents = take(held_out)
    fertility = measure(tokenizer, documents)
    compared = tokenizer.assert_equal_ids(_openings(documents)) if tokenizer.is_byte_level else 0
    spoken = [
        one for one in judge.judged_languages(settings, fertility, sample) if one in parallel.built_in()
    ]
    costs = parallel.costs(tokenizer, parallel.built_in(), spoken)
    inside = vocabulary.inspect(tokenizer)
    found = [
        *roundtrip.findings(tokenizer, ((f"{d.domain}.{d.language}", d.text) for d in documents[:1000])),
        *(judge.missing(settings, fertility, sample) if sample else ()),
        *(judge.expensive(costs, settings.fertility_ratio) if spoken else ()),
        *judge.junk(inside),
        *structure.findings(tokenizer),
    ]
    return {
        "fertility": {name: figure.to_dict() for name, figure in sorted(fertility.items())},
        "parallel": {cost.language: cost.to_dict() for cost in costs},
        "vocabulary": inside.to_dict(),
        "equal_ids_texts": compared,
        "findings": [finding.to_dict() for finding in found],
    }


def compare(tokenizer: Tokenizer, held_out: Iterable[Sample]) -> dict[str, Any]:
    """The same held-out text under every installed reference vocabulary: bytes a token by slice, cost by language, overlap; plain JSON."""
    documents = take(held_out)
    candidates = {"this": tokenizer, **references.available()}
    compared: dict[str, Any] = {}
    for name, candidate in candidates.items():
        slices = measure(candidate, documents)
        total = sum(slices.values(), NOTHING)
        compared[name] = {
            "n_tokens": candidate.n_tokens,
            "bytes_per_token": round(total.bytes_per_token, 4),
            "tokens_per_word": round(total.tokens_per_word, 4),
            "slices": {key: figure.to_dict() for key, figure in sorted(slices.items())},
            "parallel": {
                cost.language: cost.to_dict() for cost in parallel.costs(candidate, parallel.built_in())
            },
            "overlap": None if candidate is tokenizer else vocabulary.overlap(tokenizer, candidate),
        }
    return compared


def take(documents: Iterable[Sample], slice_bytes: int = SLICE_BYTES) -> list[Sample]:
    """The first documents of each slice, up to `slice_bytes` characters."""
    spent: dict[str, int] = {}
    count: dict[str, int] = {}
    kept = []
    for document in documents:
        name = f"{document.domain}.{document.language}"
        if spent.get(name, 0) >= slice_bytes or count.get(name, 0) >= SLICE_DOCUMENTS or not document.text:
            continue
        text = document.text[:slice_bytes]
        kept.append(Sample(text, document.language, document.domain))
        spent[name] = spent.get(name, 0) + len(text)
        count[name] = count.get(name, 0) + 1
    return kept


def _openings(documents: Sequence[Sample]) -> Iterable[str]:
    return itertools.islice((document.text[:EQUAL_IDS_BYTES] for document in documents), 200)


__all__ = ["compare", "report", "take"]
