"""Faults of distributed training (DI), planted in one of two real ranks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.faults import ranks
from bench.faults.case import case


def _run(plant: str, strength: str) -> Callable[[Any], list[Any]]:
    def verb(folder: Any) -> list[Any]:
        return ranks.findings(Path(folder), plant, strength)

    return verb


def _both(fault: str, families: str, places: str) -> None:
    case(fault, families, places, {"verb": _run(fault, "loud")}, {"verb": _run(fault, "faint")})


_both("DI1", "RANK OPT-WIRING", "ranks")
_both("DI2", "RANK OPT-WIRING", "ranks")
_both("DI3", "RANK", "ranks")
_both("DI4", "RANK", "ranks")
_both("DI5", "NUMERIC", f"run|step {ranks.NUMBERS_AT}")
