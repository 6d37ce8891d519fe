"""`trainer_state.json` of Hugging Face's Trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from umsicht.diagnose.curves import Curves, Damage
from umsicht.diagnose.logs import names
from umsicht.diagnose.logs.rows import Columns, build, number
from umsicht.diagnose.logs.text import read_bytes
from umsicht.findings.errors import UserError
from umsicht.words import t

FILE = "trainer_state.json"


def find(folder: Path) -> Path | None:
    """The state in a folder, or that of its newest `checkpoint-N`."""
    if (folder / FILE).exists():
        return folder / FILE
    found = [path for path in folder.glob(f"checkpoint-*/{FILE}") if path.parent.name[11:].isdigit()]
    return max(found, key=lambda path: int(path.parent.name[11:]), default=None)


def read_trainer_state(path: Path) -> Curves:
    """Curves of the log history. The summary at its end (`train_runtime`, whose `train_loss` is a mean over the run) is left out."""
    try:
        state = orjson.loads(_plain_numbers(read_bytes(path)))
    except orjson.JSONDecodeError:
        raise UserError(
            t("diagnose.log.broken_json", path=path), where=str(path), fix=t("diagnose.log.broken_json.fix")
        ) from None
    history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list):
        raise UserError(t("diagnose.log.no_history", path=path), where=str(path))
    damage, columns = Damage(), Columns()
    for entry in history:
        if not isinstance(entry, dict) or "step" not in entry:
            damage.unreadable += 1
            continue
        if "train_runtime" in entry:
            continue
        _add(columns, entry, damage)
    made = build(columns, source=str(path), format="trainer_state", rows=len(history), damage=damage)
    _plan(made, state)
    return made


def _plain_numbers(data: bytes) -> bytes:
    """Python's json writes NaN and Infinity bare, which is not JSON."""
    for bare in (b"NaN", b"-Infinity", b"Infinity"):
        data = data.replace(b": " + bare, b': "' + bare + b'"').replace(b":" + bare, b':"' + bare + b'"')
    return data


def _add(columns: Columns, entry: dict[str, Any], damage: Damage) -> None:
    for theirs, value in entry.items():
        ours = names.canonical(theirs)
        if ours is None and theirs.startswith("eval_") and theirs.endswith("_loss"):
            ours = f"val/{theirs[5:-5]}/loss"
        if ours is None or ours == names.STEP:
            continue
        try:
            figure = number(str(value))
        except ValueError:
            damage.unreadable += 1
            continue
        if figure is not None:
            columns.add(ours, int(entry["step"]), figure)


def _plan(made: Curves, state: dict[str, Any]) -> None:
    planned = state.get("max_steps")
    if isinstance(planned, int) and planned > 0:
        made.planned_steps = planned
        made.finished = bool(state.get("global_step", 0) >= planned)
    made.from_checkpoint = False
