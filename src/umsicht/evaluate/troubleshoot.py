"""Why does it write nonsense? The usual reasons, cheapest first: the prompt, its tokens, the way of drawing, the end token.

Works on any model of which one can ask ids in, logits out; changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from umsicht.findings import Finding
from umsicht.score import TokenNats, document_nats

HOT, COLD = 1.3, 0.2


class Codec(Protocol):
    """What is asked of a tokenizer."""

    @property
    def eos_id(self) -> int: ...
    @property
    def special(self) -> dict[str, int]: ...
    def encode(self, text: str) -> list[int]: ...
    def decode(self, ids: Sequence[int]) -> str: ...


@dataclass(frozen=True)
class Request:
    """What somebody asked for and did not like."""

    prompt: str
    temperature: float = 0.8
    top_p: float = 0.95
    max_new_tokens: int = 128
    seq_len: int = 256
    is_chat: bool = False
    """The user expects answers to instructions."""
    has_chat_training: bool = False
    """The model was fine-tuned on the chat template."""
    training_has_eos: bool | None = None
    """Documents end with the end token in the training data; None: not known."""


def examine(
    request: Request, tokenizer: Codec, nats_of: TokenNats, device: torch.device | str = "cpu"
) -> tuple[list[tuple[int, str]], list[Finding]]:
    """(the prompt's tokens as (id, text), findings in the order to look at them)."""
    ids = tokenizer.encode(request.prompt)
    found = [
        *_prompt(request, tokenizer, ids),
        *_drawing(request, ids),
        *_end(request, tokenizer, nats_of, ids, device),
    ]
    return [(i, tokenizer.decode([i])) for i in ids], found


def _finding(slug: str, grade: Any, where: str = "", **numbers: Any) -> Finding:
    return Finding(f"SAMPLE/{slug}", grade, "evaluate", where, numbers)


def _prompt(request: Request, tokenizer: Codec, ids: list[int]) -> list[Finding]:
    found = []
    prompt = request.prompt
    if not prompt.strip():
        found.append(_finding("empty-prompt", "note"))
    elif prompt != prompt.rstrip(" ") and ids:
        with_space, without = len(ids), len(tokenizer.encode(prompt.rstrip(" ")))
        found.append(
            _finding("trailing-space", "warn", repr(prompt[-12:]), tokens=with_space, without=without)
        )
    literal = [name for name in tokenizer.special if name in prompt]
    if literal:
        found.append(_finding("literal-special", "warn", literal[0], token=literal[0]))
    if tokenizer.decode(ids) != prompt:
        found.append(_finding("prompt-changed", "stop", "", tokens=len(ids)))
    if request.is_chat and not request.has_chat_training:
        found.append(_finding("chat-on-base", "warn"))
    if request.has_chat_training and not request.is_chat and "<|im_start|>" not in prompt:
        found.append(_finding("template-missing", "warn"))
    return found


def _drawing(request: Request, ids: list[int]) -> list[Finding]:
    found = []
    if request.temperature > HOT:
        found.append(_finding("too-hot", "warn", temperature=request.temperature, bound=HOT))
    elif request.temperature < COLD:
        found.append(_finding("greedy", "note", temperature=request.temperature))
    if request.top_p >= 1.0 and request.temperature >= 1.0:
        found.append(_finding("whole-tail", "note", temperature=request.temperature))
    room = request.seq_len - len(ids)
    if room < request.max_new_tokens:
        grade = "warn" if room < request.max_new_tokens / 2 else "note"
        found.append(
            _finding(
                "over-length", grade, prompt=len(ids), wanted=request.max_new_tokens, seq_len=request.seq_len
            )
        )
    return found


def _end(
    request: Request, tokenizer: Codec, nats_of: TokenNats, ids: list[int], device: torch.device | str
) -> list[Finding]:
    """An end token that was never trained is about as probable as any other: 1 / vocabulary, wherever one looks."""
    if request.training_has_eos is False:
        return [_finding("end-untrained", "stop", probability=0.0)]
    eos = tokenizer.eos_id
    # after a full stop and a blank line an end should be thinkable
    ends = [[*ids, *tokenizer.encode(tail), eos] for tail in (".", ".\n", ".\n\n")]
    window = max(map(len, ends))
    nats = document_nats(
        nats_of, [torch.tensor(e).numpy() for e in ends], prefix=eos, window=window, device=device
    )
    best = min(float(n[-1]) for n in nats)
    if not math.isfinite(best):
        return [_finding("not-finite", "stop")]
    probability = math.exp(-best)
    if probability < 1e-5:
        return [_finding("end-untrained", "warn", probability=probability)]
    return []
