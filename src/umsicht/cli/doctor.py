"""`umsicht doctor`: what this machine has, what it can do, and what is known not to work together."""

from __future__ import annotations

import sys
from typing import Literal

from umsicht.cli.output import print_json, print_table
from umsicht.words import t

Shell = Literal["bash", "zsh", "fish"]


def doctor(*, completion: Shell | None = None, json: bool = False) -> int:
    """What this machine has, and what is known not to work together. Exit code 1 where something needs attention.

    Parameters
    ----------
    completion
        Print the completion script for this shell instead.
    json
        Print JSON.
    """
    if completion is not None:
        return _complete(completion)
    from umsicht.cli import examine

    facts = examine.facts()
    problems, advice = examine.problems(facts), examine.advice(facts)
    if json:
        print_json({"facts": facts, "problems": problems, "advice": advice})
        return 1 if problems else 0
    print_table(("", ""), [(t(f"cli.doctor.fact.{key}"), _shown(value)) for key, value in facts.items()])
    for line in advice:
        print(f"· {line}")
    for line in problems:
        print(f"! {line}")
    print(t("cli.doctor.problem", count=len(problems)) if problems else t("cli.doctor.fine"))
    return 1 if problems else 0


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return t("cli.doctor.ok") if value else t("cli.doctor.missing")
    if isinstance(value, dict):
        return ", ".join(f"{key} {inner}" for key, inner in value.items())
    if isinstance(value, list):
        return " ".join(map(str, value)) or "—"
    return str(value) if value not in ("", None) else "—"


def _complete(shell: Shell) -> int:
    """The script for a shell, made from the same signatures as `--help`."""
    from umsicht.cli.main import build_app

    sys.stdout.write(build_app("*").generate_completion(shell=shell))
    return 0
