"""Logs as lines of text: llm.c, modded-nanogpt, Megatron, nanoGPT and whatever writes "name: number" beside a step."""

from __future__ import annotations

import re
from pathlib import Path

from umsicht.diagnose.curves import TRAIN, VAL, Curves, Damage
from umsicht.diagnose.logs import names
from umsicht.diagnose.logs.rows import Columns, build, number
from umsicht.diagnose.logs.text import decode, read_bytes

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|NaN|inf|Infinity)"
_PAIR = re.compile(rf"(?P<name>[A-Za-z_][A-Za-z_/.\- ]*?)['\"]?\s*[:=\s]\s*(?P<value>{_NUMBER})(?![\w.])")
_STEP = re.compile(
    r"\b(?:steps?|iter(?:ation)?|it|s|global_step|update|num_updates)\b['\"]?\s*[:=\s]?\s*(\d+)(?:\s*/\s*(\d+))?",
    re.I,
)
BAR = r"(?<![\d.])(?P<done>\d+)/(?P<all>\d+) \[\d+:\d\d"
"""What a progress bar says of how far it is."""
_BAR = re.compile(BAR)
_VALIDATION = re.compile(r"\b(?:val(?:id(?:ation)?)?|eval(?:uation)?|test)\b", re.I)
_EVERY_WORD_ABOUT = re.compile(r"^(?:at|on|for|in|value|of|is)\b\s*", re.I)


def read_lines(path: Path) -> Curves:
    """Curves of a line log; a line without a step belongs to the step before it. Lines without a known number are passed over."""
    lines = _lines(decode(read_bytes(path)))
    damage = Damage()
    if lines and lines[-1].strip():
        damage.torn += 1
    lines.pop()
    columns = Columns()
    step, planned, rows = 0, None, 0
    for line in lines:
        match = _step(line)
        if match:
            step = int(match[1])
            planned = int(match[2]) if match[2] else planned
        found = _pairs(line)
        rows += bool(found)
        for name, value in found.items():
            columns.add(name, step, value)
    made = build(columns, source=str(path), format="lines", rows=rows, damage=damage)
    made.planned_steps = planned
    return made


def looks_like(text: str) -> bool:
    """Whether some of the first lines hold a step and a loss."""
    return sum(bool(_step(line)) and bool(_pairs(line)) for line in _lines(text)[:400]) >= 2


def _lines(text: str) -> list[str]:
    """A progress bar writes over its own line: each of its states is one."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _step(line: str) -> re.Match[str] | None:
    """Where the line says how far the run is, by name or as the `5/100 [00:01` of a progress bar."""
    return _STEP.search(line) or _BAR.search(line)


def _pairs(line: str) -> dict[str, float]:
    """Known metrics of one line under Umsicht's names; the first of each."""
    validation = bool(_VALIDATION.search(line))
    found: dict[str, float] = {}
    for match in _PAIR.finditer(line):
        raw = match["name"].strip(" '\"-.")
        ours = _name(raw)
        if ours is None or ours in (names.STEP, names.TIME, names.RUN):
            continue
        # "validation loss at iteration 1000 | lm loss value: 2.9": the whole line speaks of validation.
        if ours == TRAIN and validation and not re.search(r"train", raw, re.I):
            ours = VAL
        value = number(match["value"])
        if value is not None:
            found.setdefault(ours, value)
    return found


def _name(raw: str) -> str | None:
    """The name without what stands before it on the line ("| bf MFU | lm loss" → "lm loss")."""
    words = raw.split()
    for start in range(len(words)):
        ours = names.canonical(_EVERY_WORD_ABOUT.sub("", " ".join(words[start:])))
        if ours is not None and not ours.startswith(("train/", "val/", "train_eval/")):
            return ours
        if ours in names._ALIASES:
            return ours
    return None
