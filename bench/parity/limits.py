"""What each figure of parity must reach."""

from __future__ import annotations

LIMITS: dict[str, str] = {
    "logits": "<= 1e-05",
    "that differ": "== 0",
    "SFT: loss": "<= 1e-05",
    "SFT: largest gradient difference": "<= 1e-05",
    "DPO: first loss against ln 2": "<= 1e-06",
    "DPO: largest difference of a step's loss": "<= 0.0001",
    "lm-eval: bits per byte, in process against its loader": "<= 1e-05",
    "lm-eval: bits per byte, against ours": "<= 1e-05",
    "alpha": "<= 1e-09",
    "kappa": "<= 1e-09",
    "log strengths": "<= 1e-06",
    "interval": "<= 1e-09",
    "test": "<= 1e-09",
    "correlation": "<= 1e-09",
}


def limit_of(name: str) -> str:
    """The target of a figure: by its whole name, else by its ending; none for information."""
    return LIMITS.get(name) or next((bound for end, bound in LIMITS.items() if name.endswith(end)), "")
