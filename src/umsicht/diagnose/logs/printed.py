"""Dictionaries that a Python trainer printed, as the console of a Hugging Face `Trainer` shows them; between them the bars that count its steps."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from umsicht.diagnose.curves import Curves, Damage
from umsicht.diagnose.logs import names
from umsicht.diagnose.logs.jsonl import curves_of_rows, flat
from umsicht.diagnose.logs.lines import BAR
from umsicht.diagnose.logs.text import decode, read_bytes

_PIECE = re.compile(BAR + r"|(?P<row>\{'[^{}\n]*\})")
_BARE = re.compile(r"(?<=: )(-?)(nan|inf)(?=[,}])", re.I)


def looks_printed(text: str) -> bool:
    """Whether some of it are printed dictionaries with a loss in them."""
    found = (_row(match["row"]) for match in _PIECE.finditer(text) if match["row"])
    return sum(row is not None and any("loss" in key for key in row) for row in found) >= 2


def read_printed(path: Path, columns: Mapping[str, str] | None = None) -> Curves:
    """Curves of printed dictionaries; a row without a step has that of the bar before it, else it is counted."""
    damage, rows, done, total, last = Damage(), [], 0, 0, 0
    for match in _PIECE.finditer(decode(read_bytes(path))):
        if not match["row"]:
            # The longest bar is the training's; an evaluation shows one of its own.
            if int(match["all"]) >= total:
                done, total = int(match["done"]), int(match["all"])
            continue
        row = _row(match["row"])
        if row is None:
            damage.unreadable += 1
            continue
        if not any(names.canonical(key) == names.STEP for key in row):
            is_training = any(names.canonical(key) == "train/loss" for key in row)
            last = max(last + 1, done) if is_training else max(last, 1)
            row = {"step": last, **row}
        rows.append(row)
    return curves_of_rows(rows, path, columns, damage, "printed")


def _row(text: str) -> dict[str, Any] | None:
    try:
        found = ast.literal_eval(_BARE.sub(r"'\1\2'", text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return flat(found) if isinstance(found, dict) and all(isinstance(key, str) for key in found) else None
