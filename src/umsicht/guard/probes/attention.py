"""The attention of a model as it is really called: scale, masks, rows without anything to see, entropy at the start."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from umsicht.findings import Finding
from umsicht.guard.subject import Subject, grade_if, numbers

STAGE = "dtypes"


class Listener(TorchFunctionMode):
    """Sees every attention call and every pair of cosine and sine that the model makes, without touching them."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[dict[str, Any]] = []
        self.products: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        self.softmaxes: list[dict[str, Any]] = []
        self.cosines: list[torch.Tensor] = []
        self.sines: list[torch.Tensor] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Pass the call on; note what it was."""
        kwargs = kwargs or {}
        output = function(*args, **kwargs)
        name = getattr(function, "__name__", "")
        if name == "scaled_dot_product_attention":
            self._sdpa(args, kwargs)
        elif (
            name in ("matmul", "__matmul__", "bmm", "baddbmm")
            and isinstance(output, torch.Tensor)
            and output.dim() >= 3
        ):
            tensors = [value for value in args if isinstance(value, torch.Tensor)]
            if (
                output.shape[-1] == output.shape[-2]
                and output.shape[-1] > 1
                and len(tensors) >= 2
                and len(self.products) < 64
            ):
                self.products.append((tensors[-2], tensors[-1], output))
        elif (
            name == "softmax"
            and isinstance(output, torch.Tensor)
            and output.dim() >= 3
            and output.shape[-1] == output.shape[-2]
            and len(self.softmaxes) < 64
        ):
            self._softmax(args[0], output)
        elif name == "cos" and isinstance(output, torch.Tensor) and len(self.cosines) < 8:
            self.cosines.append(output.detach())
        elif name == "sin" and isinstance(output, torch.Tensor) and len(self.sines) < 8:
            self.sines.append(output.detach())
        return output

    def _sdpa(self, args: Any, kwargs: Any) -> None:
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        query, key = given["query"], given["key"]
        mask = given.get("attn_mask")
        empty = 0
        if isinstance(mask, torch.Tensor):
            allowed = mask if mask.dtype == torch.bool else mask > -1e4
            empty = int((~allowed.any(dim=-1)).sum())
        self.calls.append(
            {
                "scale": given.get("scale") or 1 / math.sqrt(query.shape[-1]),
                "width": int(query.shape[-1]),
                "causal": bool(given.get("is_causal", False)),
                "masked": mask is not None,
                "empty_rows": empty,
                "dropout": float(given.get("dropout_p", 0.0) or 0.0),
                "dtype": query.dtype,
                "balance": _size(query) / max(_size(key), 1e-12),
                **_entropy(query, key, mask, given.get("scale")),
            }
        )

    def _softmax(self, scores: torch.Tensor, output: torch.Tensor) -> None:
        """Eager attention: the factor between q·k and what goes into the softmax."""
        product = next((item for item in reversed(self.products) if item[2].shape == scores.shape), None)
        if product is None:
            return
        left, _, raw = product
        wide, other = scores.detach().float(), raw.detach().float()
        usable = (wide > -1e4) & (other.abs() > 1e-6) & torch.isfinite(wide)
        ratio = (wide[usable] / other[usable]) if bool(usable.any()) else torch.tensor([math.nan])
        # The factor may have been applied to q before the product; then it is in the product already and cannot be seen here.
        self.softmaxes.append(
            {
                "factor": float(ratio.median()),
                "width": int(left.shape[-1]),
                "empty_rows": int((scores.detach() <= -1e4).all(dim=-1).sum()),
            }
        )


def _size(tensor: torch.Tensor) -> float:
    return float(tensor.detach().float().square().mean().sqrt())


def _entropy(query: torch.Tensor, key: torch.Tensor, mask: Any, scale: Any) -> dict[str, float]:
    """Spread of the scores, and mean entropy of the causal attention rows as a share of the largest one possible."""
    seq = query.shape[-2]
    if query.shape[:-2] != key.shape[:-2] or key.shape[-2] != seq or seq < 8:
        return {"logits": math.nan, "entropy": 1.0}
    scores = query.detach().float() @ key.detach().float().transpose(-1, -2)
    scores = scores * (scale or 1 / math.sqrt(query.shape[-1]))
    allowed = torch.ones(seq, seq, dtype=torch.bool, device=scores.device).tril()
    if isinstance(mask, torch.Tensor):
        allowed = allowed & (mask if mask.dtype == torch.bool else mask > -1e4)
    chance = torch.softmax(scores.masked_fill(~allowed, -torch.inf), dim=-1)
    entropy = -(chance * chance.clamp_min(1e-30).log()).sum(-1)
    most = allowed.expand(scores.shape).sum(-1).float().log()
    share = (entropy / most.clamp_min(1e-9))[most > math.log(4)]
    return {"logits": float(scores.std()), "entropy": float(share.mean()) if share.numel() else 1.0}


def listen(subject: Subject, *, awake: bool = True) -> Listener:
    """One forward pass in eval mode with the listener on; with the weights woken, or as they were initialised."""
    view = subject.need_model()
    listener = Listener()
    woken = subject.awake() if awake else contextlib.nullcontext()
    with torch.no_grad(), view.mode(training=False), woken, listener:
        view.logits(subject.small.ids, **subject.small.context)
    return listener


def sharpness(tap: Listener) -> Iterator[Finding]:
    """At the start no head knows where to look: its entropy is close to that of looking everywhere, and alike in every layer."""
    for index, call in enumerate(tap.calls):
        if call["entropy"] < 0.6:
            yield Finding(
                "NUMERIC/attention-sharp",
                "stop",
                STAGE,
                location=f"model: attention call {index}",
                numbers=numbers(entropy=call["entropy"], logits=call["logits"], usual=1.0),
            )
            return
    spreads = [call["logits"] for call in tap.calls if math.isfinite(call["logits"])]
    if len(spreads) < 2 or min(spreads) < 0.3:
        return
    middle = sorted(spreads)[(len(spreads) - 1) // 2]
    for index, value in enumerate(spreads):
        is_sharp = tap.calls[index]["entropy"] < 0.85 or value > 3 * middle
        if (value > 1.5 * middle and is_sharp) or value < middle / 3:
            yield Finding(
                "NUMERIC/attention-sharp",
                "stop",
                STAGE,
                location=f"model: attention call {index}",
                numbers=numbers(entropy=tap.calls[index]["entropy"], logits=value, usual=middle),
            )
            return


def attention(subject: Subject, tap: Listener) -> Iterator[Finding]:
    """Every call: rows that see something, no dropout in evaluation, and the scale that is declared or usual, the same in all layers."""
    declared = subject.declared.attention_scale
    configured = None if declared else _configured(subject)
    for index, call in enumerate(tap.calls):
        usual = declared or 1 / math.sqrt(call["width"])
        if call["empty_rows"] and not _pads(subject):
            yield _empty_rows(index, call["empty_rows"])
            return
        if call["dropout"] and not subject.declared.dropout_in_eval:
            yield Finding(
                "EVAL-VALIDITY/dropout-in-eval",
                "stop",
                "evaluation",
                location=f"model: attention call {index}",
                numbers=numbers(dropout=call["dropout"]),
            )
            return
        ratio = call["scale"] / usual
        if configured and abs(call["scale"] / configured - 1) < 0.01:
            continue
        # Queries that were scaled before the call are so much shorter than keys.
        if not declared and call["scale"] == 1.0 and 0.6 < call["balance"] * ratio < 1.6:
            continue
        if ratio > 1.05 or ratio < 0.95:
            yield _scale(index, call["scale"], usual, call["width"], is_sure=bool(declared))
            return
    scales = {round(call["scale"], 6) for call in tap.calls}
    widths = {call["width"] for call in tap.calls}
    if len(scales) > 1 and len(widths) == 1:
        yield Finding(
            "NUMERIC/attention-scale",
            "warn",
            STAGE,
            location="model: attention",
            numbers=numbers(
                scale=max(scales),
                usual=min(scales),
                ratio=max(scales) / min(scales),
                width=next(iter(widths)),
            ),
        )
        return
    for index, call in enumerate(tap.softmaxes):
        if call["empty_rows"] and not _pads(subject):
            yield _empty_rows(index, call["empty_rows"])
            return
        usual = declared or 1 / math.sqrt(call["width"])
        factor = call["factor"]
        if configured and math.isfinite(factor) and abs(factor / configured - 1) < 0.02:
            continue
        if (
            math.isfinite(factor)
            and call["width"] >= 8
            and abs(factor - 1.0) > 0.02
            and not 0.95 < factor / usual < 1.05
        ):
            yield _scale(index, factor, usual, call["width"], is_sure=bool(declared))
            return


def _configured(subject: Subject) -> float | None:
    """The scale that the model's own configuration names; None where it names none."""
    config = getattr(subject.model.module if subject.model is not None else None, "config", None)
    for name in ("attention_multiplier", "attention_scale", "softmax_scale"):
        value = getattr(config, name, None)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return float(value)
    scalar = getattr(config, "query_pre_attn_scalar", None)
    return float(scalar) ** -0.5 if isinstance(scalar, int | float) and scalar > 0 else None


def _empty_rows(index: int, rows: int) -> Finding:
    place = f"model: attention call {index}"
    return Finding("NUMERIC/attention-row-empty", "stop", STAGE, location=place, numbers=numbers(rows=rows))


def _scale(index: int, scale: float, usual: float, width: int, *, is_sure: bool) -> Finding:
    ratio = scale / usual
    return Finding(
        "NUMERIC/attention-scale",
        grade_if(is_sure or ratio > 3 or ratio < 0.3),
        STAGE,
        location=f"model: attention call {index}",
        numbers=numbers(scale=scale, usual=usual, ratio=ratio, width=width),
    )


def _pads(subject: Subject) -> bool:
    return bool((~subject.small.real).any())
