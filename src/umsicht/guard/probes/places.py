"""T17 on anybody's attention: in a row of one repeated token, scores may know distances, and must know something of places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from umsicht.findings import Finding
from umsicht.guard.subject import Cannot, Subject, numbers, token_id

STAGE = "documents"
LENGTHS = (23, 19, 29, 13)
"""Primes: no head is as wide as the row is long, so a square of that size is a matrix of scores."""
EVEN = 2e-3
MACHINERY = (
    "rotary",
    "rope",
    "cos",
    "sin",
    "inv_freq",
    "freqs",
    "alibi",
    "slope",
    "position",
    "wpe",
    "pos_emb",
)


@dataclass
class Call:
    """One attention: scores `[heads, seq, seq]` of unit queries, the values it mixes, and whether a bias was added."""

    scores: torch.Tensor
    fused: bool
    bias: bool = False
    values: torch.Tensor | None = None


@dataclass
class _Scores(TorchFunctionMode):
    seq: int
    calls: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        output = function(*args, **kwargs)
        name = getattr(function, "__name__", "")
        if name == "scaled_dot_product_attention":
            given = {**dict(zip(("query", "key", "value", "attn_mask"), args, strict=False)), **kwargs}
            mask = given.get("attn_mask")
            bias = isinstance(mask, torch.Tensor) and mask.is_floating_point()
            self._see(given["query"], given["key"].transpose(-1, -2), given["value"], fused=True, bias=bias)
        elif name in ("matmul", "__matmul__", "bmm") and isinstance(output, torch.Tensor):
            tensors = [value for value in args if isinstance(value, torch.Tensor)]
            if len(tensors) == 2 and output.shape[-2:] == (self.seq, self.seq):
                self._see(tensors[0], tensors[1], None, fused=False, bias=False)
            elif len(tensors) == 2 and self.calls and tensors[0].shape[-2:] == (self.seq, self.seq):
                self.calls[-1].values = (
                    self.calls[-1].values if self.calls[-1].values is not None else tensors[1]
                )
        return output

    def _see(self, query: torch.Tensor, key: torch.Tensor, value: Any, *, fused: bool, bias: bool) -> None:
        query, key = query.detach().double(), key.detach().double()
        if query.dim() < 3 or query.shape[-2] != self.seq or key.shape[-1] != self.seq:
            return
        if query.dim() == 4 and key.dim() == 4 and query.shape[1] != key.shape[1]:
            if query.shape[1] % key.shape[1]:
                return
            key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
        # Queries may grow with their place (a temperature for long rows); what they point at may not.
        query = query / query.norm(dim=-1, keepdim=True).clamp_min(1e-12)
        found = (query @ key).reshape(-1, self.seq, self.seq)
        self.calls.append(Call(found, fused, bias, value))


def places(subject: Subject) -> Iterator[Finding]:
    """Rotary positions that reach no score, and rotations after which equal distances have unequal scores."""
    view, module = subject.need_model(), subject.need_module()
    if view.dtype not in (torch.float32, torch.float64):
        raise Cannot("half precision is too coarse for angles")
    calls = _calls(subject)
    still = [call for call in calls if call.values is not None and _same_everywhere(call.values)]
    if not still or any(call.bias for call in calls):
        raise Cannot("positions come in some other way than by turning queries and keys")
    for index, call in enumerate(still):
        gap = uneven(call.scores)
        if gap > EVEN:
            yield Finding(
                "NUMERIC/distance-uneven",
                "stop" if call.fused else "warn",
                STAGE,
                location="model: rotary",
                numbers=numbers(call=index, gap=gap, length=int(call.scores.shape[-1])),
            )
            return
    if len(still) == len(calls) and all(_flat(call.scores) for call in calls):
        parts = machinery(module)
        yield Finding(
            "NUMERIC/positions-unseen",
            "stop" if parts else "note",
            STAGE,
            location="model: rotary" if parts else "model: positions",
            numbers=numbers(calls=len(calls), parts=", ".join(parts[:3]) or "—"),
        )


def _calls(subject: Subject) -> list[Call]:
    view, example = subject.need_model(), subject.small
    seq = next((n for n in LENGTHS if n <= example.ids.shape[1]), 0)
    if not seq:
        raise Cannot("rows are too short to compare distances")
    named = [token_id(subject.tokenizer, role) for role in ("eos", "pad", "bos")] if subject.tokenizer else []
    usable = [token for token in example.ids[0].tolist() if token not in named]
    ids = torch.full((1, seq), usable[len(usable) // 2] if usable else 1, device=example.ids.device)
    listener = _Scores(seq)
    with subject.awake(), torch.no_grad(), view.mode(training=False), listener:
        view.logits(ids)
    if not listener.calls:
        raise Cannot("no attention call was seen")
    return listener.calls


def _same_everywhere(values: torch.Tensor) -> bool:
    """Values that do not change along the row: no position has entered the stream before or beside the scores."""
    wide = values.detach().double()
    gap = (wide - wide[..., :1, :]).abs().max()
    return bool(gap <= 1e-4 * wide.abs().max().clamp_min(1e-12))


def uneven(scores: torch.Tensor) -> float:
    """Largest difference of scores at one distance, causal part only, relative to the largest score."""
    seq = scores.shape[-1]
    size = scores.abs().max().clamp_min(1e-12)
    gaps = []
    for distance in range(seq - 1):
        line = scores.diagonal(-distance, dim1=-2, dim2=-1)
        gaps.append((line.amax(-1) - line.amin(-1)).max() / size)
    return float(torch.stack(gaps).max())


def _flat(scores: torch.Tensor) -> bool:
    lower = scores[:, *torch.tril_indices(scores.shape[-1], scores.shape[-1])]
    return bool((lower.amax(-1) - lower.amin(-1)).max() <= 1e-4 * lower.abs().max().clamp_min(1e-12))


def machinery(module: nn.Module) -> list[str]:
    """Names of buffers, parameters and modules that are there to say where a token stands."""
    names = [
        *(name for name, _ in module.named_buffers()),
        *(name for name, _ in module.named_modules()),
    ]
    parts = [name.rsplit(".", 1)[-1].lower() for name in names]
    return [
        name
        for name, part in zip(names, parts, strict=True)
        if any(part == word or (len(word) > 3 and word in part) for word in MACHINERY)
    ]
