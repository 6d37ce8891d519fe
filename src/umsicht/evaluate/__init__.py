"""Evaluate: held-out scores beside baselines, samples of text, and what they say.

Importing this package imports no torch: names are loaded when they are asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from umsicht.evaluate.evaluation import Evaluation, evaluate_model, load_all
    from umsicht.evaluate.hook import SampleHook
    from umsicht.evaluate.promptset import Prompt, PromptSet
    from umsicht.evaluate.promptset import load as load_prompts
    from umsicht.evaluate.protocol import Protocol
    from umsicht.evaluate.samples import draw, summary
    from umsicht.evaluate.stage import Inputs, build

_WHERE = {
    "Evaluation": ("evaluation", "Evaluation"),
    "Inputs": ("stage", "Inputs"),
    "Prompt": ("promptset", "Prompt"),
    "PromptSet": ("promptset", "PromptSet"),
    "Protocol": ("protocol", "Protocol"),
    "SampleHook": ("hook", "SampleHook"),
    "build": ("stage", "build"),
    "draw": ("samples", "draw"),
    "evaluate_model": ("evaluation", "evaluate_model"),
    "load_all": ("evaluation", "load_all"),
    "load_prompts": ("promptset", "load"),
    "summary": ("samples", "summary"),
}

__all__ = [
    "Evaluation",
    "Inputs",
    "Prompt",
    "PromptSet",
    "Protocol",
    "SampleHook",
    "build",
    "draw",
    "evaluate_model",
    "load_all",
    "load_prompts",
    "summary",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _WHERE[name]
    return getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
