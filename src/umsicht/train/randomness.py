"""Random numbers of a run: each step's dropout is a function of (seed, step, rank), so that no hook, sample or restart can shift it."""

from __future__ import annotations

import hashlib
import random
from typing import Any

import numpy as np
import torch


def seed_step(seed: int, step: int, rank: int) -> None:
    """Set torch's generators for one step. Neighbouring steps get unrelated streams (SHA-256 of the three numbers)."""
    digest = hashlib.sha256(f"umsicht step {seed} {step} {rank}".encode()).digest()
    torch.manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def capture() -> dict[str, Any]:
    """State of the generators of torch, Python and numpy, JSON-able."""
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    state: dict[str, Any] = {
        "torch": bytes(torch.get_rng_state().numpy().tobytes()).hex(),
        "python": [version, list(internal), gauss],
        "numpy": [name, np.asarray(keys).tolist(), int(position), int(has_gauss), float(cached)],
    }
    if torch.cuda.is_available():
        state["cuda"] = [bytes(s.cpu().numpy().tobytes()).hex() for s in torch.cuda.get_rng_state_all()]
    return state


def restore(state: dict[str, Any]) -> None:
    """The inverse of `capture`; devices that are not here are left out."""
    torch.set_rng_state(_tensor(state["torch"]))
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), position, has_gauss, cached))
    if torch.cuda.is_available() and len(state.get("cuda", [])) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all([_tensor(s) for s in state["cuda"]])


def _tensor(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
