"""The same sentences in many languages: what a language costs for equal content.

Tokens a word or a byte cannot be compared between languages, because words and bytes carry different amounts of content. Sentences that say the
same can (Petrov et al. 2023, "Language model tokenizers introduce unfairness between languages"). A few written for Umsicht are built in;
a user's own parallel text (JSONL with `language`, `id`, `text`) is measured the same way.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import orjson

from umsicht.findings import UserError
from umsicht.tokenizer.core import Tokenizer
from umsicht.words import t


@dataclass(frozen=True)
class ParallelCost:
    """What one language costs on sentences that all compared languages have."""

    language: str
    sentences: int
    tokens: int
    ratio: float

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"sentences": self.sentences, "tokens": self.tokens, "ratio": round(self.ratio, 3)}


@functools.cache
def built_in() -> dict[str, tuple[str, ...]]:
    """Language code → six sentences, the same ones in each language."""
    loaded = orjson.loads((resources.files(__package__) / "parallel.json").read_bytes())
    return {language: tuple(sentences) for language, sentences in loaded.items()}


def costs(
    tokenizer: Tokenizer, sentences: Mapping[str, Sequence[str]], languages: Iterable[str] = ()
) -> list[ParallelCost]:
    """Tokens a language, cheapest first, and the ratio to the cheapest. All sequences must say the same in the same order."""
    chosen = [language for language in (languages or sentences) if language in sentences]
    totals = {
        language: sum(len(tokenizer.encode(text)) for text in sentences[language]) for language in chosen
    }
    least = min(totals.values(), default=1) or 1
    found = [ParallelCost(name, len(sentences[name]), total, total / least) for name, total in totals.items()]
    return sorted(found, key=lambda cost: (cost.tokens, cost.language))


def read(path: Path | str) -> dict[str, tuple[str, ...]]:
    """Parallel text from JSONL lines `{"language": …, "id": …, "text": …}`; only ids that every language has are kept.

    Raises UserError for a missing file, a line of another form, or no common ids.
    """
    path = Path(path)
    by_language: dict[str, dict[str, str]] = defaultdict(dict)
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
            by_language[str(row["language"])][str(row["id"])] = str(row["text"])
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise UserError(
                t("tokenizer.parallel_line"), where=f"{path}:{number}", fix=t("tokenizer.parallel_line_fix")
            ) from error
    common = set.intersection(*(set(rows) for rows in by_language.values())) if by_language else set()
    if not common:
        raise UserError(
            t("tokenizer.parallel_nothing"), where=str(path), fix=t("tokenizer.parallel_line_fix")
        )
    order = sorted(common)
    return {language: tuple(rows[key] for key in order) for language, rows in by_language.items()}
