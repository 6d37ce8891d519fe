"""Which verb lives in which module. A verb's module exports one function (or a cyclopts App) under the name given here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

# In the order of the way; the overview lists the verbs under these headings (`cli.stage.…`).
Stage = Literal["start", "prepare", "train", "judge", "hand_over", "look"]


@dataclass(frozen=True)
class Verb:
    """Where a verb is found, and at which stage of the way it is used."""

    stage: Stage
    module: str
    attribute: str

    def load(self) -> Callable[..., Any]:
        """Import the module and return the verb."""
        loaded: Callable[..., Any] = getattr(
            importlib.import_module(f"umsicht.cli.{self.module}"), self.attribute
        )
        return loaded


VERBS: dict[str, Verb] = {
    "init": Verb("start", "init", "init"),
    "run": Verb("start", "run", "run"),
    "explain": Verb("start", "explain", "explain"),
    "doctor": Verb("start", "doctor", "doctor"),
    "corpus": Verb("prepare", "corpus", "corpus"),
    "tokenizer": Verb("prepare", "tokenizer", "tokenizer"),
    "plan": Verb("prepare", "plan", "plan"),
    "check": Verb("prepare", "check", "check"),
    "train": Verb("train", "train", "train"),
    "launch": Verb("train", "launch", "launch"),
    "watch": Verb("train", "watch", "watch"),
    "diagnose": Verb("train", "diagnose", "diagnose"),
    "compare": Verb("train", "compare", "compare"),
    "experiment": Verb("train", "experiment", "experiment"),
    "evaluate": Verb("judge", "evaluate", "evaluate"),
    "sample": Verb("judge", "sample", "sample"),
    "chat": Verb("judge", "chat", "chat"),
    "read": Verb("judge", "read", "read"),
    "rate": Verb("judge", "rate", "rate"),
    "finetune": Verb("hand_over", "finetune", "finetune"),
    "export": Verb("hand_over", "export", "export"),
    "import": Verb("hand_over", "import_model", "import_model"),
    "dashboard": Verb("look", "dashboard", "dashboard"),
    "report": Verb("look", "report", "report"),
    "runs": Verb("look", "runs", "runs"),
    "show": Verb("look", "show", "show"),
    "verify": Verb("look", "verify", "verify"),
    "lineage": Verb("look", "lineage", "lineage"),
    "gc": Verb("look", "gc", "gc"),
}

ALIASES = {"pretrain": "train", "ui": "dashboard"}
