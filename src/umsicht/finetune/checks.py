"""Before the first step of a stage: is the template one, is the adapter an addition, is the reference the start?

Equality where equality holds: a fresh adapter changes nothing, merging changes nothing, policy and reference agree. The same
functions take foreign parts (any "ids in, logits out", any two renderings), so that they judge other people's stages too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from umsicht.findings import Finding
from umsicht.model import Transformer
from umsicht.model.lora import adapters
from umsicht.tokenizer import Tokenizer
from umsicht.tokenizer.chat import prompt_ids, render

from .rows import Message
from .subject import merged

Logits = Callable[[Tensor], Tensor]
"""ids [batch, seq] → logits [batch, seq, vocab]."""

TOLERANCE = 1e-5
"""Two ways to the same float32 logits differ by rounding only (fault catalogue, T24). Rounding grows with what is rounded:
logits beyond 1 may differ by this share of the largest."""


def prompt_is_prefix(
    conversations: Sequence[tuple[Message, ...]],
    training_ids: Callable[[Sequence[Message]], Sequence[int]],
    inference_ids: Callable[[Sequence[Message]], Sequence[int]],
    decode: Callable[[list[int]], str] = str,
) -> list[Finding]:
    """BOUNDARY-TOKEN/prompt-not-prefix: the prompt at inference must be an exact prefix, in ids, of the training row."""
    for number, messages in enumerate(conversations):
        whole, prompt = list(training_ids(messages)), list(inference_ids(messages[:-1]))
        if whole[: len(prompt)] == prompt:
            continue
        at = next(
            (i for i, pair in enumerate(zip(whole, prompt, strict=False)) if pair[0] != pair[1]), len(whole)
        )
        numbers = {"row": number, "position": at, "prompt_tokens": len(prompt), "rows": len(conversations)}
        shown = (
            f"{decode(whole[max(0, at - 4) : at + 4])!r}",
            f"{decode(prompt[max(0, at - 4) : at + 4])!r}",
        )
        return [
            Finding("BOUNDARY-TOKEN/prompt-not-prefix", "stop", "finetune", f"row {number}", numbers, shown)
        ]
    return []


def same_logits(
    finding_id: str, one: Logits, other: Logits, ids: Tensor, location: str, tolerance: float = TOLERANCE
) -> list[Finding]:
    """The finding `finding_id` where two models that must agree differ on `ids` by more than `tolerance`, times their
    largest logit where that is above 1."""
    with torch.no_grad():
        a, b = one(ids).float(), other(ids).float()
    difference = float((a - b).abs().max())
    accepted = tolerance * max(1.0, float(b.abs().max()))
    if difference <= accepted:
        return []
    numbers = {"difference": float(f"{difference:.3g}"), "tolerance": float(f"{accepted:.3g}")}
    return [Finding(finding_id, "stop", "finetune", location, numbers)]


def adapter_algebra(policy: Transformer, base: Logits, ids: Tensor) -> list[Finding]:
    """A fresh adapter answers as the base; with B moved it answers otherwise, and merged as unmerged; nothing else learns.

    The adapters are moved for the test and put back.
    """
    layers = adapters(policy)
    was_training = policy.training
    policy.eval()
    saved = {name: layer.lora_b.detach().clone() for name, layer in layers.items()}
    try:
        found = same_logits("ADAPTER/changes-base", policy, base, ids, "adapter")
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for layer in layers.values():
                noise = torch.randn(layer.lora_b.shape, generator=generator)
                layer.lora_b.copy_(0.02 * noise.to(layer.lora_b))
            moved = float((policy(ids).float() - base(ids).float()).abs().max())
        if moved <= TOLERANCE:
            numbers = {"moved": moved, "layers": len(layers)}
            found.append(Finding("ADAPTER/no-effect", "stop", "finetune", "adapter", numbers))
        found += same_logits("ADAPTER/merge-differs", policy, merged(policy), ids, "adapter")
    finally:
        with torch.no_grad():
            for name, layer in layers.items():
                layer.lora_b.copy_(saved[name])
        policy.train(was_training)
    return found + only_adapters_learn(policy)


def only_adapters_learn(policy: torch.nn.Module) -> list[Finding]:
    """ADAPTER/base-learns: a weight of the base would be trained beside the adapters."""
    learning = [
        name
        for name, parameter in policy.named_parameters()
        if parameter.requires_grad and not name.endswith((".lora_a", ".lora_b"))
    ]
    if not learning:
        return []
    numbers = {"weights": len(learning), "first": learning[0]}
    return [Finding("ADAPTER/base-learns", "stop", "finetune", learning[0], numbers)]


def template(conversations: Sequence[tuple[Message, ...]], tokenizer: Tokenizer) -> list[Finding]:
    """`prompt_is_prefix` for our own renderer and this tokenizer."""
    return prompt_is_prefix(
        conversations,
        lambda messages: render(messages, tokenizer).ids,
        lambda messages: prompt_ids(messages, tokenizer),
        tokenizer.decode,
    )
