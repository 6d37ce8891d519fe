"""Which verb lives in which module. A verb's module exports one function (or a cyclopts App) under the name given here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Verb:
    """Where a verb is found."""

    module: str
    attribute: str

    def load(self) -> Callable[..., Any]:
        """Import the module and return the verb."""
        loaded: Callable[..., Any] = getattr(
            importlib.import_module(f"umsicht.cli.{self.module}"), self.attribute
        )
        return loaded


VERBS: dict[str, Verb] = {
    "init": Verb("init", "init"),
    "run": Verb("run", "run"),
    "corpus": Verb("corpus", "corpus"),
    "tokenizer": Verb("tokenizer", "tokenizer"),
    "plan": Verb("plan", "plan"),
    "evaluate": Verb("evaluate", "evaluate"),
    "read": Verb("read", "read"),
    "rate": Verb("rate", "rate"),
    "diagnose": Verb("diagnose", "diagnose"),
    "compare": Verb("compare", "compare"),
    "experiment": Verb("experiment", "experiment"),
    "train": Verb("train", "train"),
    "runs": Verb("runs", "runs"),
    "show": Verb("show", "show"),
    "verify": Verb("verify", "verify"),
    "lineage": Verb("lineage", "lineage"),
    "gc": Verb("gc", "gc"),
    "sample": Verb("sample", "sample"),
    "chat": Verb("chat", "chat"),
    "finetune": Verb("finetune", "finetune"),
    "export": Verb("export", "export"),
    "import": Verb("import_model", "import_model"),
    "report": Verb("report", "report"),
    "watch": Verb("watch", "watch"),
    "dashboard": Verb("dashboard", "dashboard"),
    "check": Verb("check", "check"),
    "explain": Verb("explain", "explain"),
    "doctor": Verb("doctor", "doctor"),
}

ALIASES = {"pretrain": "train", "ui": "dashboard"}
