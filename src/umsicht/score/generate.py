"""Writing text: one token after another, each read once thanks to the cache."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import torch
from torch import Tensor

from umsicht.model import KVCache, Transformer

from .sampling import SamplingRule
from .split import evaluating


def generate(
    model: Transformer | Callable[[Tensor], Tensor],
    ids: Sequence[int],
    *,
    max_new_tokens: int,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    seed: int = 0,
    stop_ids: Collection[int] = (),
) -> Iterator[int]:
    """Yield up to `max_new_tokens` ids that continue `ids`; a stop id is yielded and ends the text.

    The same seed gives the same text. Our own model reads each token once; where the text outgrows the trained
    context, the older half is forgotten and the rest read again. Any other callable "ids [1, t] in, logits [1, t, vocab]
    out" is asked anew for each token. Raises `ValueError` for an empty prompt or a rule out of range.
    """
    if not ids:
        raise ValueError("a prompt needs at least one token; start with the end-of-text id")
    rule = SamplingRule(temperature, top_p, top_k, min_p, repetition_penalty)
    reader: _Cached | _Plain = _Cached(model) if isinstance(model, Transformer) else _Plain(model)
    return _write(reader, list(ids), rule, max_new_tokens, seed, frozenset(stop_ids))


def _write(
    reader: _Cached | _Plain,
    text: list[int],
    rule: SamplingRule,
    max_new_tokens: int,
    seed: int,
    stop_ids: frozenset[int],
) -> Iterator[int]:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(max_new_tokens):
        token = rule.draw(reader.next_logits(text), generator, text)
        text.append(token)
        yield token
        if token in stop_ids:
            return


class _Cached:
    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.limit = model.config.seq_len
        self.cache: KVCache | None = None
        self.start = 0

    @torch.no_grad()
    def next_logits(self, text: list[int]) -> Tensor:
        """Logits `[n_tokens]` of the token after `text`; ids beyond the tokenizer's are cut off."""
        if self.cache is None or len(text) - self.start > self.limit:
            self._restart(len(text))
        assert self.cache is not None
        new = text[self.start + self.cache.length :]
        with evaluating(self.model):
            device = self.model.embed.weight.device
            hidden = self.model.hidden(torch.tensor([new], device=device), cache=self.cache)
            return self.model.logits(hidden[0, -1])[: self.model.config.n_tokens].float()

    def _restart(self, length: int) -> None:
        if length > self.limit:
            keep = self.limit if self.cache is None else max(1, self.limit // 2)
            self.start = length - min(keep, self.limit)
        weight = self.model.embed.weight
        self.cache = KVCache(self.model.config, 1, self.limit, device=weight.device, dtype=weight.dtype)


class _Plain:
    def __init__(self, model: Callable[[Tensor], Tensor]) -> None:
        self.model = model

    @torch.no_grad()
    def next_logits(self, text: list[int]) -> Tensor:
        """Logits `[vocab]` of the token after `text`."""
        parameters = getattr(self.model, "parameters", None)
        device = next(parameters()).device if parameters is not None else "cpu"
        return self.model(torch.tensor([text], device=device))[0, -1].float()
