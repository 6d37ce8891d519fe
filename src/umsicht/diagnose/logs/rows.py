"""Measurements in the order of the file → clean series: restarts, duplicates and disorder resolved and counted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from umsicht.diagnose.curves import TRAIN, VAL, Curves, Damage, count_nonfinite
from umsicht.diagnose.logs import names
from umsicht.diagnose.series import Series

MISSING = frozenset({"", "null", "none", "n/a", "na", "-", "#n/a", "--"})
_NONFINITE = {
    "nan": math.nan,
    "inf": math.inf,
    "+inf": math.inf,
    "infinity": math.inf,
    "+infinity": math.inf,
    "-inf": -math.inf,
    "-infinity": -math.inf,
    "∞": math.inf,
    "-∞": -math.inf,
    "1.#inf": math.inf,
    "1.#qnan": math.nan,
    "-nan": math.nan,
    "-nan(ind)": math.nan,
}


@dataclass
class Columns:
    """Steps and values of each metric in the order in which they were written."""

    steps: dict[str, list[int]] = field(default_factory=dict)
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, step: int, value: float) -> None:
        """One measurement."""
        if name not in self.steps:
            self.steps[name], self.values[name] = [], []
        self.steps[name].append(step)
        self.values[name].append(value)


def number(text: str, *, decimal_comma: bool = False) -> float | None:
    """A number as a log writes it; None for a missing one. Raises ValueError for what is neither."""
    text = text.strip().strip('"').strip()
    low = text.lower()
    if low in MISSING:
        return None
    if low in _NONFINITE:
        return _NONFINITE[low]
    if decimal_comma and "," in text:
        text = text.replace(".", "").replace(",", ".")
    return float(text.replace(" ", "").replace("\u202f", "").replace("_", ""))


def build(
    columns: Columns, *, source: str, format: str, rows: int, damage: Damage, wanted: Iterable[str] = ()
) -> Curves:
    """Curves out of columns; every metric is put in order on its own, since tools write them at different moments."""
    series: dict[str, Series] = {}
    restarts: set[int] = set()
    for name, steps in columns.steps.items():
        cleaned = _in_order(steps, columns.values[name], damage)
        restarts |= set(cleaned.restarts)
        series[name] = Series.of(name, cleaned.steps, cleaned.values)
    _from_perplexity(series)
    damage.nonfinite = count_nonfinite(series)
    missing = [name for name in (*wanted, TRAIN, VAL) if name not in series]
    damage.missing_columns = tuple(dict.fromkeys(missing))
    made = Curves(series=series, source=source, format=format, rows=rows, damage=damage)
    made.restarts = tuple(sorted(_apart(restarts, series)))
    return made


def _from_perplexity(series: dict[str, Series]) -> None:
    """Loss = ln perplexity, where only the perplexity was logged."""
    for perplexity, loss in ((names.VAL_PPL, VAL), (names.TRAIN_PPL, TRAIN)):
        if perplexity in series and loss not in series:
            old = series.pop(perplexity)
            with np.errstate(divide="ignore", invalid="ignore"):
                series[loss] = Series.of(loss, old.steps, np.log(old.values))


def _apart(restarts: set[int], series: Mapping[str, Series]) -> list[int]:
    """Each restart once: the metrics of one restart begin again within a few of the coarsest steps of each other."""
    if not restarts:
        return []
    cadence = max((one.cadence for one in series.values()), default=1)
    kept: list[int] = []
    for step in sorted(restarts):
        if not kept or step - kept[-1] > max(cadence, 1):
            kept.append(step)
    return kept


@dataclass
class _Ordered:
    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    restarts: list[int] = field(default_factory=list)


def _in_order(steps: list[int], values: list[float], damage: Damage) -> _Ordered:
    """A step back is a restart if the log goes on from there, else a row out of order; a step written again replaces the first."""
    if all(a < b for a, b in zip(steps, steps[1:], strict=False)):
        return _Ordered(steps, values)
    made = _Ordered()
    for index, (step, value) in enumerate(zip(steps, values, strict=True)):
        if not made.steps or step > made.steps[-1]:
            made.steps.append(step)
            made.values.append(value)
            continue
        if step == made.steps[-1]:
            damage.duplicates += 1
            made.values[-1] = value
            continue
        place = int(np.searchsorted(made.steps, step))
        if _goes_on(steps, index, made.steps[-1]):
            damage.replaced += len(made.steps) - place
            del made.steps[place:], made.values[place:]
            made.steps.append(step)
            made.values.append(value)
            made.restarts.append(step)
        elif made.steps[place] == step:
            damage.duplicates += 1
            made.values[place] = value
        else:
            damage.out_of_order += 1
            made.steps.insert(place, step)
            made.values.insert(place, value)
    return made


def _goes_on(steps: list[int], index: int, highest: int) -> bool:
    """Whether the log continues from the step at `index` instead of jumping straight back above `highest`."""
    following = steps[index + 1 : index + 4]
    if not following:
        return False
    return following[0] <= highest and all(
        a < b for a, b in zip([steps[index], *following], following, strict=False)
    )
