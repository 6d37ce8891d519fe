"""Every code a diagnosis can hold has words in both languages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import umsicht.diagnose.next_steps as next_steps
from umsicht.diagnose.model import VERDICTS
from umsicht.words import catalogue

SOURCE = Path(next_steps.__file__).parent


def used_keys() -> set[str]:
    """Keys that the source names, by reading it: verdicts, causes, actions, reasons, roles."""
    keys = {f"verdict.{name}" for name in VERDICTS}
    keys |= {f"cause.{cause}" for cause in next_steps.BY_CAUSE}
    actions = {action for actions in next_steps.BY_CAUSE.values() for action in actions}
    own = {action for actions in next_steps.BY_REASON.values() for action in actions}
    keys |= {f"do.{action}" for action in actions | own} | {f"why.{action}" for action in own}
    patterns = "".join(path.read_text() for path in [*SOURCE.glob("rules/*.py"), SOURCE / "decide.py"])
    keys |= {f"reason.{name}" for name in re.findall(r'Ruling\(\s*"[a-z-]+",\s*"([a-z-]+)"', patterns)}
    keys |= {f"role.{name}" for name in re.findall(r'cite\([^"]*?"([a-z_]+)"', patterns)}
    return keys


@pytest.mark.parametrize("language", ["en", "de"])
def test_every_code_has_words(language: str) -> None:
    words = catalogue(language, "diagnose")
    assert sorted(used_keys() - set(words)) == []


def test_every_cause_of_a_rule_has_an_action() -> None:
    words = catalogue("en", "diagnose")
    causes = {key.removeprefix("cause.") for key in words if key.startswith("cause.")}
    assert causes == set(next_steps.BY_CAUSE)


def test_every_action_has_a_command_entry() -> None:
    actions = {action for actions in next_steps.BY_CAUSE.values() for action in actions}
    actions |= {action for actions in next_steps.BY_REASON.values() for action in actions}
    assert actions == set(next_steps.COMMANDS)
