"""Which metrics share a chart, under which names, in which order. The same list serves the live page and the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from umsicht.dashboard import numbers
from umsicht.dashboard.buckets import Reduced, bucket_width, polyline, reduce
from umsicht.record.columns import Columns, Sparse, attempt_starts, replaced_rows
from umsicht.words import t

MOST_CURVES = 6
GAP = "derived/gap"


@dataclass(frozen=True)
class Curve:
    """One metric on a chart; `slot` fixes its colour and dash pattern."""

    key: str
    label: str
    slot: int
    dots: bool = False


@dataclass(frozen=True)
class Chart:
    """One chart: its id, which names its texts, and at most six curves, because no more can be told apart."""

    id: str
    curves: tuple[Curve, ...]
    log_y: bool | None = None
    limit: float | None = None

    def title(self, lang: str) -> str:
        base, _, number = self.id.partition("-")
        title = t(f"dashboard.chart.{base}", lang=lang)
        return f"{title} ({number})" if number else title

    def unit(self, lang: str) -> str:
        return t(f"dashboard.unit.{self.id.partition('-')[0]}", lang=lang)


def slices(columns: Columns, figure: str = "bpb") -> list[str]:
    """The slices with a validation figure, alphabetically, without the total."""
    found = [
        key.split("/")[1]
        for key in columns.series
        if key.startswith("val/") and key.endswith("/" + figure) and key.count("/") == 2
    ]
    return sorted(name for name in found if name != "all")


def charts(
    columns: Columns, lang: str, *, clip: float | None = None, order: Sequence[str] = ()
) -> list[Chart]:
    """The charts this run has data for, in reading order. Slices come in the order of `order` (the largest first), six curves a chart."""
    made: list[Chart] = []

    def word(name: str) -> str:
        return t(f"dashboard.curve.{name}", lang=lang)

    def add(
        chart_id: str,
        wanted: Sequence[tuple[str, str, bool]],
        log_y: bool | None = None,
        limit: float | None = None,
    ) -> None:
        have = [(key, label, dots) for key, label, dots in wanted if key in columns.series]
        if have:
            shown = enumerate(have[:MOST_CURVES])
            curves = tuple(Curve(key, label, slot, dots) for slot, (key, label, dots) in shown)
            made.append(Chart(chart_id, curves, log_y, limit))

    total = [("val/all/loss", word("val"), True), ("train_eval/loss", word("train_eval"), True)]
    add("loss", [("train/loss", word("train"), False), *total])
    figure = "bpb" if slices(columns) else "loss"
    names = sorted(
        slices(columns, figure), key=lambda name: order.index(name) if name in order else len(order)
    )
    total_of = [(f"val/all/{figure}", word("all"), True)]
    first = MOST_CURVES - sum(key in columns.series for key, _, _ in total_of)
    base = "bpb" if figure == "bpb" else "slice_loss"
    add(base, [*total_of, *((f"val/{name}/{figure}", name, True) for name in names[:first])])
    for number, start in enumerate(range(first, len(names), MOST_CURVES), 2):
        add(
            f"{base}-{number}",
            [(f"val/{name}/{figure}", name, True) for name in names[start : start + MOST_CURVES]],
        )
    add("gap", [(GAP, word("gap"), True)])
    add("grad", [("train/grad_norm", word("grad"), False)], limit=clip)
    add("lr", [("train/lr", word("lr"), False)], log_y=False)
    add("throughput", [("train/tokens_per_s", word("throughput"), False)], log_y=False)
    add("mfu", [("train/mfu", word("mfu"), False)], log_y=False)
    add("wait", [("train/data_wait_s", word("wait"), False)], log_y=False)
    add("memory", [("train/memory_bytes", word("memory"), False)], log_y=False)
    return made


def with_gap(columns: Columns) -> Columns:
    """`columns` with the validation–training gap as one more metric.

    The gap is like for like only against the training loss re-measured in eval mode (`train_eval/…`); without that metric there is none.
    """
    for figure in ("bpb", "loss"):
        validation, training = (
            columns.series.get(f"val/all/{figure}"),
            columns.series.get(f"train_eval/{figure}"),
        )
        if validation is None or training is None:
            continue
        gap = _difference(columns, validation, training)
        if len(gap.rows):
            return replace(columns, series=columns.series | {GAP: gap})
    return columns


def _difference(columns: Columns, first: Sparse, second: Sparse) -> Sparse:
    """`first - second` at the steps where both were measured, on the rows of `first`; the last value of a step wins."""
    by_step = dict(zip(columns.step[second.rows].tolist(), second.values.tolist(), strict=True))
    rows, values = [], []
    for row, value in zip(first.rows.tolist(), first.values.tolist(), strict=True):
        other = by_step.get(float(columns.step[row]))
        if other is not None:
            rows.append(row)
            values.append(value - other)
    return Sparse(np.array(rows, np.int32), np.array(values, np.float64))


@dataclass(frozen=True)
class Drawn:
    """A metric reduced for drawing: what counts now, what a restart replaced, and where it was not finite."""

    now: Reduced
    history: Reduced
    nonfinite: list[tuple[float, str]]


def draw(
    columns: Columns,
    key: str,
    *,
    axis: str = "step",
    x0: float | None = None,
    x1: float | None = None,
    pixels: int = 600,
) -> Drawn:
    """Reduce one metric over `[x0, x1]` of `axis` to at most about `pixels` buckets."""
    column = columns.series.get(key) or Sparse(np.empty(0, np.int32), np.empty(0, np.float64))
    whole_axis = columns.axis(axis)
    x = whole_axis[column.rows]
    low = float(whole_axis.min()) if x0 is None and len(whole_axis) else (x0 or 0.0)
    high = float(whole_axis.max()) if x1 is None and len(whole_axis) else (x1 or 0.0)
    width = bucket_width(low, high, pixels)
    inside = (x >= low - width) & (x <= high + width)
    old = replaced_rows(columns)[column.rows] & inside
    new = ~replaced_rows(columns)[column.rows] & inside
    odd = np.flatnonzero(~np.isfinite(column.values) & inside)
    return Drawn(
        reduce(x[new], column.values[new], width),
        reduce(x[old], column.values[old], width),
        [(float(x[n]), _spelled(float(column.values[n]))) for n in odd],
    )


def _spelled(value: float) -> str:
    return "NaN" if value != value else "+∞" if value > 0 else "−∞"


def restarts(columns: Columns, axis: str = "step") -> list[float]:
    """Where later attempts began, on `axis`."""
    return [float(columns.axis(axis)[row]) for row in attempt_starts(columns)]


def summary(columns: Columns, curve: Curve, lang: str) -> str:
    """One sentence about a curve, for those who cannot see it: where it began, where it is, its lowest and highest."""
    column = columns.series[curve.key]
    good = np.isfinite(column.values) & ~replaced_rows(columns)[column.rows]
    values = column.values[good]
    if not len(values):
        return t("dashboard.summary.nothing", lang=lang, name=curve.label)
    first, last, low, high = (
        numbers.number(float(v), lang) for v in (values[0], values[-1], values.min(), values.max())
    )
    n = numbers.number(len(values), lang)
    return t(
        "dashboard.summary.curve",
        lang=lang,
        name=curve.label,
        n=n,
        first=first,
        last=last,
        low=low,
        high=high,
    )


def points(drawn: Reduced) -> tuple[list[float], list[float]]:
    """The polyline of a reduced metric as plain lists."""
    xs, ys = polyline(drawn)
    return xs.tolist(), ys.tolist()
