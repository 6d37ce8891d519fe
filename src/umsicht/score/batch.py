"""Many texts at once: rows padded on the left, one cache, one random stream."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from umsicht.model import KVCache, Transformer

from .split import evaluating


@torch.no_grad()
def generate_batch(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    temperature: float = 1.0,
    stop_ids: Collection[int] = (),
    pad_id: int,
    seed: int = 0,
) -> list[list[int]]:
    """Up to `max_new_tokens` ids that continue each prompt; a stop id ends a row and is part of it.

    `temperature` 0 takes the likeliest token. The draw depends on `seed` and on the whole set of prompts. Raises
    `ValueError` for an empty prompt.
    """
    if not all(prompts):
        raise ValueError("a prompt needs at least one token")
    device = model.embed.weight.device
    width = max(len(prompt) for prompt in prompts)
    first = torch.tensor([width - len(prompt) for prompt in prompts], device=device)
    ids = torch.full((len(prompts), width), pad_id, device=device)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(list(prompt), device=device)
    cache = KVCache(
        model.config,
        len(prompts),
        width + max_new_tokens,
        device=device,
        dtype=model.embed.weight.dtype,
        first=first,
    )
    generator = torch.Generator().manual_seed(seed)
    stops = torch.tensor(sorted(stop_ids), dtype=torch.int64)
    ended = torch.zeros(len(prompts), dtype=torch.bool)
    texts: list[list[int]] = [[] for _ in prompts]
    with evaluating(model):
        for _ in range(max_new_tokens):
            hidden = model.hidden(ids, cache=cache)
            logits = model.logits(hidden[:, -1])[:, : model.config.n_tokens].float().cpu()
            drawn = _draw(logits, temperature, generator)
            for row in (~ended).nonzero().flatten().tolist():
                texts[row].append(int(drawn[row]))
            ended |= torch.isin(drawn, stops)
            if bool(ended.all()):
                break
            ids = drawn[:, None].to(device)
    return texts


def _draw(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    if temperature == 0.0:
        return logits.argmax(-1)
    return torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator).squeeze(1)
