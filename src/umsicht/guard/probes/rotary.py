"""Rotary tables against float64: frequencies in a geometric series, cosine and sine on the circle and turning evenly."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import nn

from umsicht.findings import Finding
from umsicht.guard.probes.attention import Listener
from umsicht.guard.subject import numbers

STAGE = "dtypes"
HALF = (torch.bfloat16, torch.float16)


def rotary(module: nn.Module, tap: Listener) -> Iterator[Finding]:
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
