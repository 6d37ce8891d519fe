"""Choosing the size of the vocabulary by measurement.

Merges are learned in order, so the vocabulary of a smaller size is the beginning of that of a larger one: one training gives all sizes.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from umsicht.recipe.tokenizer import TokenizerSettings
from umsicht.tokenizer.core import Tokenizer
from umsicht.tokenizer.fertility import NOTHING, Fertility, measure
from umsicht.tokenizer.sample import Sample, plan_sample
from umsicht.tokenizer.special import special_names
from umsicht.tokenizer.train import N_BYTES, learn, require_full, with_special

# A vocabulary is worth its rows while doubling it still saves this share of the tokens.
WORTH_DOUBLING = 0.04
EMBEDDING_SHARE = 0.4


@dataclass(frozen=True)
class SizeFigures:
    """What one size gives on held-out text. `embedding_share` is the tables' part of all parameters of a model of the given width."""

    vocab_size: int
    fertility: Fertility
    slices: dict[str, Fertility]
    embedding_share: float

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "vocab_size": self.vocab_size,
            "bytes_per_token": round(self.fertility.bytes_per_token, 4),
            "tokens_per_word": round(self.fertility.tokens_per_word, 4),
            "embedding_share": round(self.embedding_share, 4),
            "slices": {name: round(one.bytes_per_token, 4) for name, one in sorted(self.slices.items())},
        }


def compare_sizes(
    settings: TokenizerSettings,
    samples: Callable[[], Iterable[Sample]],
    held_out: Sequence[Sample],
    sizes: Sequence[int],
    *,
    d_model: int,
    body_parameters: int,
    tied: bool = False,
) -> list[SizeFigures]:
    """Figures of each size, smallest first. Raises UserError where the text does not support the largest."""
    largest = settings.model_copy(update={"vocab_size": max(sizes)})
    definition = learn(largest, plan_sample(largest, samples()).choose(samples()))
    require_full(largest, definition)
    found = []
    for size in sorted(set(sizes)):
        tokenizer = Tokenizer(shortened(definition, size, settings.reserved), check=False)
        slices = measure(tokenizer, held_out)
        tables = (1 if tied else 2) * size * d_model
        found.append(
            SizeFigures(size, sum(slices.values(), NOTHING), slices, tables / (tables + body_parameters))
        )
    return found


def shortened(definition: dict[str, Any], vocab_size: int, reserved: int) -> dict[str, Any]:
    """The tokenizer of `vocab_size` ids that the same text would have given."""
    names = special_names(reserved)
    n_merges = vocab_size - N_BYTES - len(names)
    made = copy.deepcopy({key: value for key, value in definition.items() if key != "model"})
    model = definition["model"]
    kept = {token: number for token, number in model["vocab"].items() if number < N_BYTES + n_merges}
    made["model"] = {**model, "vocab": kept, "merges": model["merges"][:n_merges]}
    return with_special(made, names)


def recommend(figures: Sequence[SizeFigures]) -> int:
    """The largest size that still pays: each doubling up to it saves at least 4 % of the tokens and leaves the tables below 40 % of the weights.

    A convention, not a law: saved tokens are saved compute in the body and the head, but rows of the tables are learned from few examples each.
    """
    best = figures[0]
    for figure in figures[1:]:
        doublings = math.log2(figure.vocab_size / best.vocab_size)
        saved = 1 - best.fertility.bytes_per_token / figure.fertility.bytes_per_token
        if saved / doublings < WORTH_DOUBLING or figure.embedding_share > EMBEDDING_SHARE:
            break
        best = figure
    return best.vocab_size
