"""The scenarios by number. Each is a function that hurts real jobs and yields figures: (name, value, target)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module

from bench.survival.subject import Subjects

Figures = Iterator[tuple[str, float, str]]
ROOMS = ("kills", "stalls", "disks", "ranks", "network", "storm")


class SkippedError(Exception):
    """This machine cannot make the fault; the reason is printed."""


@dataclass(frozen=True)
class Scenario:
    """One row of the table."""

    number: int
    title: str
    act: Callable[[Subjects], Figures]

    @property
    def room(self) -> str:
        """The file it is in."""
        return self.act.__module__.rpartition(".")[2]


SCENARIOS: dict[int, Scenario] = {}


def scenario(
    number: int, title: str
) -> Callable[[Callable[[Subjects], Figures]], Callable[[Subjects], Figures]]:
    """Register a function as scenario `number`."""

    def register(act: Callable[[Subjects], Figures]) -> Callable[[Subjects], Figures]:
        SCENARIOS[number] = Scenario(number, title, act)
        return act

    return register


def all_scenarios() -> list[Scenario]:
    """Every scenario, by number."""
    for room in ROOMS:
        import_module(f"bench.survival.scenarios.{room}")
    return [SCENARIOS[number] for number in sorted(SCENARIOS)]
