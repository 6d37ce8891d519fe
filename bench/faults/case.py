"""What a case of the fault bench is, and the list that every file of `cases/` adds to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.faults import base
from umsicht.recipe import Recipe

Plant = Callable[[Any], None]


@dataclass(frozen=True)
class Case:
    """One injection: an id of the catalogue, a strength, what names it rightly, the base pipeline, and what is planted when.

    `families` and `places` (the part of a location before the colon) count as right. Planted before anything is built (`text`, `code`), in the
    stored tokens (`stored`), in model and batches (`run`), or only once the long run goes (`during`: the monitors' own ground, moment R).
    `foreign` gives the arguments of `guard.check` for a pipeline that is not Umsicht's; `verb` any other guard of the product, as a function
    of the scratch folder that returns findings.
    """

    fault: str
    strength: str
    families: tuple[str, ...]
    places: tuple[str, ...]
    recipe: Callable[[], Recipe] = base.recipe
    code: Plant | None = None
    text: Plant | None = None
    stored: Plant | None = None
    run: Plant | None = None
    during: Plant | None = None
    foreign: Callable[[], dict[str, Any]] | None = None
    verb: Callable[[Any], list[Any]] | None = None
    steps: int = 150

    @property
    def name(self) -> str:
        """`TX1-loud`."""
        return f"{self.fault}-{self.strength}"

    @property
    def moment(self) -> str:
        """`R` where the fault begins in the middle of the run, else `P`."""
        return "R" if self.during else "P"


CASES: list[Case] = []


def case(
    fault: str, families: str, places: str, loud: dict[str, Any], faint: dict[str, Any], **common: Any
) -> None:
    """Both strengths of a fault."""
    for strength, plants in (("loud", loud), ("faint", faint)):
        CASES.append(
            Case(fault, strength, tuple(families.split()), tuple(places.split("|")), **{**common, **plants})
        )
