"""Cluster arithmetic on paper: layouts, time, expected failures, how often to write checkpoints, and what share of the time is useful.

Device figures are those that the makers publish (dense bfloat16 without sparsity, memory); everything else is an assumption that is printed with
the result. Nothing here is measured.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

DAY_S = 86_400.0
HOUR_S = 3600.0
BYTES_PER_PARAMETER = 16
"""bfloat16 weights and gradients (2 + 2) and float32 masters and both Adam moments (4 + 4 + 4): Rajbhandari et al. 2020, §3.1."""
NODE = 8
USABLE_MEMORY = 0.9


@dataclass(frozen=True)
class Device:
    """Published figures of a device: dense bfloat16 operations a second, bytes of memory."""

    name: str
    flops_per_s: float
    memory_bytes: float


DEVICES = {
    device.name: device
    for device in (
        Device("A100-80GB", 312e12, 80e9),
        Device("H100-SXM", 989e12, 80e9),
        Device("H200", 989e12, 141e9),
        Device("B200", 2250e12, 180e9),
        Device("MI300X", 1307e12, 192e9),
        Device("L40S", 362e12, 48e9),
        Device("RTX-4090", 165e12, 24e9),
    )
}


@dataclass(frozen=True)
class Assumptions:
    """What is not published: utilisation, reliability, times of writing and restarting."""

    mfu: float = 0.4
    mtbf_device_hours: float = 50_000.0
    checkpoint_s: float = 30.0
    restart_s: float = 600.0


@dataclass(frozen=True)
class Layout:
    """How a model lies on devices: `tensor` ways inside a node, `pipeline` stages, `sharded` ways of parameters and data."""

    devices: int
    tensor: int
    pipeline: int
    sharded: int
    bytes_per_device: float
    fits: bool

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


def layout(
    devices: int,
    device: Device,
    parameters: float,
    *,
    d_model: int,
    n_layers: int,
    seq_len: int,
    rows_per_device: int = 1,
) -> Layout:
    """The simplest layout that fits: full sharding alone, then tensor parallelism inside a node, then pipeline stages.

    Activations are counted as 34 bytes a token, layer and width (Korthikanti et al. 2022, equation 2, attention recomputed), divided by `tensor`.
    Where nothing fits, the most divided layout is returned with `fits` False.
    """
    tried: Layout | None = None
    for pipeline in _powers(min(n_layers, devices)):
        for tensor in _powers(min(NODE, devices // pipeline)):
            sharded = devices // (tensor * pipeline)
            if tensor * pipeline * sharded != devices:
                continue
            static = BYTES_PER_PARAMETER * parameters / devices
            layers = -(-n_layers // pipeline)
            # One whole layer is gathered at a time in a sharded layout, and its gradient lives beside it.
            gathered = 4 * parameters / n_layers / tensor if sharded > 1 else 0.0
            activations = 34 * rows_per_device * seq_len * d_model * layers / tensor
            total = static + gathered + activations
            tried = Layout(
                devices, tensor, pipeline, sharded, total, total <= USABLE_MEMORY * device.memory_bytes
            )
            if tried.fits:
                return tried
    assert tried is not None
    return tried


def _powers(limit: int) -> list[int]:
    return [1 << k for k in range(max(1, limit).bit_length()) if 1 << k <= max(1, limit)]


def young(checkpoint_s: float, mtbf_s: float) -> float:
    """Seconds of work between checkpoints that lose least: √(2·δ·M) (Young 1974)."""
    return math.sqrt(2 * checkpoint_s * mtbf_s)


def daly(checkpoint_s: float, mtbf_s: float) -> float:
    """Young's interval with the higher-order terms of Daly 2006, equation 37; M itself where writing takes half of M or longer."""
    if checkpoint_s >= mtbf_s / 2:
        return mtbf_s
    x = checkpoint_s / (2 * mtbf_s)
    return young(checkpoint_s, mtbf_s) * (1 + math.sqrt(x) / 3 + x / 9) - checkpoint_s


def goodput(interval_s: float, checkpoint_s: float, restart_s: float, mtbf_s: float) -> float:
    """Share of wall time that is useful work under exponential failures: T_s ÷ T of Daly 2006, equation 20.

    T = M·e^(R/M)·(e^((τ+δ)/M) - 1)·T_s/τ for work intervals τ, checkpoints δ, restarts R, mean time between failures M.
    """
    growth = math.exp(restart_s / mtbf_s) * math.expm1((interval_s + checkpoint_s) / mtbf_s)
    return interval_s / (mtbf_s * growth)


@dataclass(frozen=True)
class ClusterPlan:
    """A training on a number of devices, on paper."""

    layout: Layout
    tokens_per_s: float
    days_without_failures: float
    failures_per_day: float
    interval_s: float
    goodput: float
    days: float
    device_hours: float

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


def cluster_plan(
    devices: int,
    device: Device,
    *,
    parameters: float,
    flops_per_token: float,
    tokens: float,
    d_model: int,
    n_layers: int,
    seq_len: int,
    assumed: Assumptions = Assumptions(),
) -> ClusterPlan:
    """Time, failures and useful share of a training of `tokens` tokens. Pipeline bubbles and slow links are inside `assumed.mfu`."""
    laid = layout(devices, device, parameters, d_model=d_model, n_layers=n_layers, seq_len=seq_len)
    tokens_per_s = devices * device.flops_per_s * assumed.mfu / flops_per_token
    pure_s = tokens / tokens_per_s
    mtbf_s = assumed.mtbf_device_hours * HOUR_S / devices
    interval = daly(assumed.checkpoint_s, mtbf_s)
    useful = goodput(interval, assumed.checkpoint_s, assumed.restart_s, mtbf_s)
    days = pure_s / useful / DAY_S
    return ClusterPlan(
        layout=laid,
        tokens_per_s=tokens_per_s,
        days_without_failures=pure_s / DAY_S,
        failures_per_day=DAY_S / mtbf_s,
        interval_s=interval,
        goodput=useful,
        days=days,
        device_hours=devices * days * 24,
    )
