"""From logits to the next token."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class SamplingRule:
    """How a token is drawn. Applied in this order, which is Hugging Face's: repetition penalty, temperature, top-k,
    top-p, min-p. `temperature` 0 takes the most likely token.

    `repetition_penalty` as in CTRL (Keskar et al. 2019), over prompt and output; `top_p` Holtzman et al. 2020;
    `min_p` (Nguyen et al. 2024) drops tokens less likely than min_p times the likeliest.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        ranges = {
            "temperature": (self.temperature, self.temperature >= 0.0),
            "top_p": (self.top_p, 0.0 < self.top_p <= 1.0),
            "top_k": (self.top_k, self.top_k >= 0),
            "min_p": (self.min_p, 0.0 <= self.min_p <= 1.0),
            "repetition_penalty": (self.repetition_penalty, self.repetition_penalty > 0.0),
        }
        for name, (value, fits) in ranges.items():
            if not fits:
                raise ValueError(f"{name} {value} is out of range")

    def filtered(self, logits: Tensor, seen: Iterable[int] = ()) -> Tensor:
        """Log-weights `[vocab]` float32 after all rules but the draw; excluded tokens are -inf."""
        logits = _penalised(logits.float(), seen, self.repetition_penalty)
        if self.temperature in (0.0, 1.0):
            scaled = logits
        else:
            scaled = logits / self.temperature
        if 0 < self.top_k < scaled.numel():
            smallest = scaled.topk(self.top_k).values[-1]
            scaled = scaled.masked_fill(scaled < smallest, float("-inf"))
        if self.top_p < 1.0:
            scaled = _nucleus(scaled, self.top_p)
        if self.min_p > 0.0:
            weights = scaled.softmax(-1)
            scaled = scaled.masked_fill(weights < self.min_p * weights.max(), float("-inf"))
        return scaled

    def draw(self, logits: Tensor, generator: torch.Generator, seen: Iterable[int] = ()) -> int:
        """One token id from `logits [vocab]` (moved to the CPU, so that a seed means the same everywhere)."""
        scaled = self.filtered(logits.cpu(), seen)
        if self.temperature == 0.0:
            return int(scaled.argmax())
        return int(torch.multinomial(scaled.softmax(-1), 1, generator=generator))


def _penalised(logits: Tensor, seen: Iterable[int], penalty: float) -> Tensor:
    if penalty == 1.0:
        return logits
    ids = torch.tensor(sorted(set(seen)), dtype=torch.int64)
    if not ids.numel():
        return logits
    logits = logits.clone()
    values = logits[ids]
    logits[ids] = torch.where(values > 0, values / penalty, values * penalty)
    return logits


def _nucleus(logits: Tensor, top_p: float) -> Tensor:
    ordered, order = logits.sort(descending=True)
    mass = ordered.softmax(-1).cumsum(-1)
    dropped = mass - ordered.softmax(-1) >= top_p
    return logits.masked_fill(torch.zeros_like(dropped).scatter(0, order, dropped), float("-inf"))
