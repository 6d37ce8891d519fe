"""A chart of a run as inline SVG: the same drawing in the report, in print, and on pages without script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from umsicht.dashboard import numbers
from umsicht.dashboard.curves import Chart, draw, points, restarts, summary
from umsicht.dashboard.svg import Line, Mark, line_chart
from umsicht.record.columns import Columns
from umsicht.words import t


@dataclass(frozen=True)
class Figure:
    """One drawn chart with what stands around it."""

    id: str
    title: str
    unit: str
    svg: str
    summaries: tuple[str, ...]
    n_points: int


def figure(
    columns: Columns,
    chart: Chart,
    lang: str,
    *,
    axis: str = "step",
    pixels: int = 600,
    events: Sequence[Mark] = (),
    size: tuple[int, int] = (760, 270),
    unit_inside: bool = True,
) -> Figure:
    """Draw `chart`; restarts and non-finite values are marked besides `events`."""
    lines, marks, total = [], [*events], 0
    for curve in chart.curves:
        drawn = draw(columns, curve.key, axis=axis, pixels=pixels)
        total += drawn.now.n_points
        if drawn.history.n_points:
            lines.append(Line(curve.label, *points(drawn.history), slot=curve.slot, faint=True))
        dots = curve.dots and drawn.now.n_points <= 24
        lines.append(Line(curve.label, *points(drawn.now), slot=curve.slot, dots=dots))
        marks += [Mark(x, "nonfinite", f"{curve.label}: {value}") for x, value in drawn.nonfinite[:20]]
    marks += [Mark(x, "restart", t("dashboard.mark.restart", lang=lang)) for x in restarts(columns, axis)]
    summaries = tuple(summary(columns, curve, lang) for curve in chart.curves)
    svg = line_chart(
        lines,
        title=chart.title(lang),
        summary=" ".join(summaries),
        lang=lang,
        x_label=t(f"dashboard.axis.{axis}", lang=lang),
        y_label=chart.unit(lang) if unit_inside else "",
        marks=marks,
        width=size[0],
        height=size[1],
        log_y=chart.log_y,
        limit=chart.limit,
        x_format=numbers.duration if axis == "time" else None,
    )
    return Figure(chart.id, chart.title(lang), chart.unit(lang), svg, summaries, total)
