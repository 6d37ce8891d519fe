"""What a block is handed must still be in what it hands on: a lost residual connection leaves a model that learns slowly, and says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from umsicht.findings import Finding
from umsicht.guard.subject import Cannot, Subject, numbers

STAGE = "initialisation"
LOUD = 100.0
"""Branches behind a norm answer with their own size, whatever they are handed; what is carried on beside them stays this loud."""
KEPT = 0.2


def stream(subject: Subject) -> Iterator[Finding]:
    """Embeddings made loud; the direction of the stream before and after each block of a chain of like blocks."""
    module = subject.need_module()
    chains = list(_chains(module))
    if not chains:
        raise Cannot("the model has no chain of like blocks")
    seen: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    view = subject.need_model()
    with _loud(module), _watched(chains, seen), torch.no_grad(), view.mode(training=False):
        view.logits(subject.small.ids, **subject.small.context)
    for blocks in chains:
        found = _lost(module, blocks, seen)
        if found is not None:
            yield found
            return


def _chains(module: nn.Module) -> Iterator[list[nn.Module]]:
    for child in module.modules():
        if isinstance(child, nn.ModuleList | nn.Sequential):
            blocks = list(child.children())
            like = [block for block in blocks if type(block) is type(blocks[0])]
            matrices = sum(p.dim() == 2 for p in blocks[0].parameters()) if blocks else 0
            if len(like) == len(blocks) >= 2 and list(blocks[0].children()) and matrices >= 2:
                yield blocks


@contextmanager
def _loud(module: nn.Module) -> Iterator[None]:
    def louder(_: nn.Module, __: Any, output: Any) -> Any:
        if isinstance(output, torch.Tensor) and output.is_floating_point():
            return output * (LOUD / output.float().square().mean().sqrt().clamp_min(1e-6)).to(output.dtype)
        return None

    handles = [m.register_forward_hook(louder) for m in module.modules() if isinstance(m, nn.Embedding)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _watched(
    chains: list[list[nn.Module]], seen: dict[int, tuple[torch.Tensor, torch.Tensor]]
) -> Iterator[None]:
    def look(block: nn.Module, arguments: Any, keywords: dict[str, Any], output: Any) -> None:
        given = arguments[0] if arguments else keywords.get("hidden_states", keywords.get("x"))
        made = output[0] if isinstance(output, tuple | list) and output else output
        if not isinstance(given, torch.Tensor) or not isinstance(made, torch.Tensor):
            return
        if given.dim() == 3 and given.shape == made.shape and id(block) not in seen:
            seen[id(block)] = (given.detach(), made.detach())

    handles = [block.register_forward_hook(look, with_kwargs=True) for blocks in chains for block in blocks]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _lost(
    module: nn.Module, blocks: list[nn.Module], seen: dict[int, tuple[torch.Tensor, torch.Tensor]]
) -> Finding | None:
    """The first block of a chain after which the stream points elsewhere. Only chains in which each is handed what the one before made."""
    pairs = [seen[id(block)] for block in blocks if id(block) in seen]
    if len(pairs) < len(blocks):
        return None
    handed_on = [torch.equal(one[1], other[0]) for one, other in zip(pairs, pairs[1:], strict=False)]
    if not all(handed_on):
        return None
    names = {id(child): name for name, child in module.named_modules()}
    for block, (given, made) in zip(blocks, pairs, strict=True):
        kept = float(torch.nn.functional.cosine_similarity(given.double(), made.double(), dim=-1).mean())
        if kept < KEPT:
            return Finding(
                "NUMERIC/residual-lost",
                "warn",
                STAGE,
                location=f"model: {names[id(block)]}",
                numbers=numbers(name=names[id(block)], kept=kept, blocks=len(blocks)),
            )
    return None
