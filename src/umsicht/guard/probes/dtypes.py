"""T17: number formats where they matter, rotary tables against float64, the scale and masks of attention as really called."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from umsicht.findings import Finding
from umsicht.guard.probes.initial import unusable
from umsicht.guard.subject import Subject, grade_if, numbers

STAGE = "dtypes"
HALF = (torch.bfloat16, torch.float16)


def dtypes(subject: Subject) -> Iterator[Finding]:
    """Parameters, rotary tables, attention calls, and the loss: each in the format and with the values it should have."""
    module = subject.need_module()
    # First of all: what is not a number would be blamed on whatever is computed from it next.
    broken = list(unusable(module))
    yield from broken
    if broken:
        return
    yield from _parameters(subject, module)
    tap = listen(subject)
    yield from _rotary(subject, module, tap)
    found = list(_attention(subject, tap))
    yield from found
    if not found and subject.model is not None and subject.examples and subject.looks_fresh:
        yield from _sharpness(listen(subject, awake=False))
    yield from _loss(subject)


def _parameters(subject: Subject, module: nn.Module) -> Iterator[Finding]:
    wanted = subject.declared.parameter_dtype
    counts: dict[str, int] = {}
    for parameter in module.parameters():
        name = str(parameter.dtype).removeprefix("torch.")
        counts[name] = counts.get(name, 0) + 1
    if wanted:
        strange = {name: count for name, count in counts.items() if name != wanted}
        if strange:
            yield Finding(
                "NUMERIC/parameter-dtype",
                "stop",
                STAGE,
                location="model",
                numbers=numbers(
                    declared=wanted, found=", ".join(f"{name} × {count}" for name, count in counts.items())
                ),
            )
    elif len(counts) > 1:
        common = max(counts, key=lambda key: counts[key])
        odd = [name for name, p in module.named_parameters() if str(p.dtype) != f"torch.{common}"]
        if all(dict(module.named_parameters())[name].dtype in HALF for name in odd) or len(odd) <= 2:
            yield Finding(
                "NUMERIC/mixed-parameters",
                "warn",
                STAGE,
                location=f"model: {odd[0]}",
                numbers=numbers(common=common, odd=len(odd), names=", ".join(odd[:4])),
            )


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


def _sharpness(tap: Listener) -> Iterator[Finding]:
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
        if value > 1.5 * middle or value < middle / 1.5:
            yield Finding(
                "NUMERIC/attention-sharp",
                "stop",
                STAGE,
                location=f"model: attention call {index}",
                numbers=numbers(entropy=tap.calls[index]["entropy"], logits=value, usual=middle),
            )
            return


def _attention(subject: Subject, tap: Listener) -> Iterator[Finding]:
    declared = subject.declared.attention_scale
    for index, call in enumerate(tap.calls):
        usual = declared or 1 / math.sqrt(call["width"])
        if call["empty_rows"] and not _pads(subject):
            yield Finding(
                "NUMERIC/attention-row-empty",
                "stop",
                STAGE,
                location=f"model: attention call {index}",
                numbers=numbers(rows=call["empty_rows"]),
            )
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
        if ratio > 1.05 or ratio < 0.95:
            grade = grade_if(bool(declared) or ratio > 3 or ratio < 0.3)
            yield Finding(
                "NUMERIC/attention-scale",
                grade,
                STAGE,
                location=f"model: attention call {index}",
                numbers=numbers(scale=call["scale"], usual=usual, ratio=ratio, width=call["width"]),
            )
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
            yield Finding(
                "NUMERIC/attention-row-empty",
                "stop",
                STAGE,
                location=f"model: attention call {index}",
                numbers=numbers(rows=call["empty_rows"]),
            )
            return
        usual = declared or 1 / math.sqrt(call["width"])
        factor = call["factor"]
        if (
            math.isfinite(factor)
            and call["width"] >= 8
            and abs(factor - 1.0) > 0.02
            and not 0.95 < factor / usual < 1.05
        ):
            ratio = factor / usual
            yield Finding(
                "NUMERIC/attention-scale",
                grade_if(bool(declared) or ratio > 3 or ratio < 0.3),
                STAGE,
                location=f"model: attention call {index}",
                numbers=numbers(scale=factor, usual=usual, ratio=ratio, width=call["width"]),
            )
            return


def _pads(subject: Subject) -> bool:
    return bool((~subject.small.real).any())


def _rotary(subject: Subject, module: nn.Module, tap: Listener) -> Iterator[Finding]:
    """Tables of cosine and sine: on the circle, and turning evenly with position, to float32's precision."""
    pairs: list[tuple[str, torch.Tensor, torch.Tensor]] = []
    buffers = {name: buffer for name, buffer in module.named_buffers() if buffer.is_floating_point()}
    for name, buffer in buffers.items():
        last = name.rsplit(".", 1)[-1]
        if "cos" in last:
            partner = buffers.get(name[: -len(last)] + last.replace("cos", "sin"))
            if partner is not None and partner.shape == buffer.shape:
                pairs.append((name, buffer, partner))
        if "inv_freq" in last or last in ("frequencies", "freqs", "theta"):
            if buffer.dtype in HALF:
                yield Finding(
                    "NUMERIC/rotary",
                    "stop",
                    STAGE,
                    location=f"model: {name}",
                    numbers=numbers(error=1.0, dtype=str(buffer.dtype).removeprefix("torch."), positions=0),
                )
                return
            if _not_geometric(buffer):
                yield Finding(
                    "NUMERIC/rotary",
                    "stop",
                    STAGE,
                    location=f"model: {name}",
                    numbers=numbers(error=_not_geometric(buffer), dtype="float32", positions=0),
                )
                return
    for cosine in tap.cosines:
        partner = next((sine for sine in tap.sines if sine.shape == cosine.shape), None)
        if partner is not None:
            pairs.append(("rotary", cosine, partner))
    for name, cosine, sine in pairs:
        error, positions = rotation_error(cosine, sine)
        if error <= 2e-3 and rounded_steps(cosine, sine):
            error = 1.0
        if error > 2e-3:
            yield Finding(
                "NUMERIC/rotary",
                "stop",
                STAGE,
                location=f"model: {name}",
                numbers=numbers(
                    error=error, dtype=str(cosine.dtype).removeprefix("torch."), positions=positions
                ),
            )
            return


def _not_geometric(frequencies: torch.Tensor) -> float:
    """How far rotary frequencies are from a geometric series; rounding to half precision shows as uneven steps."""
    values = frequencies.detach().double().reshape(-1)
    if values.numel() < 4 or bool((values <= 0).any()):
        return 0.0
    steps = values.log().diff()
    # Scaled rotary variants bend the series; rounding leaves it jagged around a straight line.
    jagged = float((steps.diff().abs()).max() / steps.abs().mean().clamp_min(1e-9))
    exact = values.float().to(torch.bfloat16).double()
    return jagged if bool(torch.equal(exact, values)) and jagged > 1e-3 else 0.0


def rotation_error(cosine: torch.Tensor, sine: torch.Tensor) -> tuple[float, int]:
    """Largest error of a table against float64 angles that are an even multiple of its first step; 0 where it is no such table."""
    wide_cos, wide_sin = cosine.detach().double(), sine.detach().double()
    wide_cos, wide_sin = wide_cos.reshape(-1, wide_cos.shape[-1]), wide_sin.reshape(-1, wide_sin.shape[-1])
    positions = wide_cos.shape[0]
    if positions < 8:
        return 0.0, positions
    radius = (wide_cos**2 + wide_sin**2).sqrt()
    if not bool((radius - radius.mean()).abs().max() < 0.05):
        return 0.0, positions
    step = torch.atan2(wide_sin[1], wide_cos[1]) - torch.atan2(wide_sin[0], wide_cos[0])
    if float(step.abs().max()) < 1e-9:
        return 0.0, positions
    # The step is refined along the table, or its own rounding would be taken for an error of the others.
    angles = torch.atan2(wide_sin, wide_cos)
    index = torch.arange(positions, dtype=torch.float64)[:, None]
    estimate = step_of(angles)
    want = estimate[None] * index + angles[0][None]
    scale = float(radius.mean())
    error = torch.maximum((want.cos() * scale - wide_cos).abs(), (want.sin() * scale - wide_sin).abs())
    return float(error.max()), positions


def rounded_steps(cosine: torch.Tensor, sine: torch.Tensor) -> bool:
    """True where every turning speed of a table is a bfloat16 number: frequencies that were rounded before the angles were made."""
    wide_cos = cosine.detach().double().reshape(-1, cosine.shape[-1])
    wide_sin = sine.detach().double().reshape(-1, sine.shape[-1])
    positions = wide_cos.shape[0]
    if positions < 16:
        return False
    speed = step_of(torch.atan2(wide_sin, wide_cos)).abs()
    speed = torch.unique(speed[speed > 1e-7])
    # 1, the first speed of every table, is such a number anyway.
    speed = speed[(speed - 1).abs() > 1e-4]
    if speed.numel() < 5:
        return False
    nearest = speed.float().to(torch.bfloat16).double()
    return bool(((speed - nearest).abs() <= 3e-4 * speed).all())


def step_of(angles: torch.Tensor) -> torch.Tensor:
    """Angle from row to row, refined along the table: over ever longer spans, or the rounding of one step would count."""
    positions = angles.shape[0]
    estimate = angles[1] - angles[0]
    estimate = torch.atan2(estimate.sin(), estimate.cos())
    span = 1
    while span * 2 < positions:
        span *= 2
        measured = angles[span] - angles[0]
        turns = ((estimate * span - measured) / (2 * math.pi)).round()
        estimate = (measured + 2 * math.pi * turns) / span
    return estimate


def _loss(subject: Subject) -> Iterator[Finding]:
    """The loss of a batch in half precision must still be a float32 number."""
    if subject.loss is None:
        return
    with torch.no_grad():
        loss = subject.need_loss().of(subject.small)
    if loss.dtype in HALF:
        yield Finding(
            "NUMERIC/loss-half",
            "warn",
            STAGE,
            location="loss",
            numbers=numbers(dtype=str(loss.dtype).removeprefix("torch.")),
        )
