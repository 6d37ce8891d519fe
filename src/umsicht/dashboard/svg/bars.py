"""Bars: a funnel (what each cleaning stage left), a histogram, and a spark line for tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from umsicht.dashboard import numbers
from umsicht.dashboard.svg.element import element, path_of, text, titled
from umsicht.dashboard.svg.scale import Scale, linear_ticks


def spark(values: Sequence[float], *, title: str = "", width: int = 120, height: int = 28) -> str:
    """A small curve without axes. Logarithmic where values span more than a factor of six, like the large charts."""
    finite = [v for v in values if math.isfinite(v)]
    if len(finite) < 2:
        return ""
    low, high = min(finite), max(finite)
    is_log = low > 0 and high / low > 6
    scale = Scale(low, high if high > low else low + 1, height - 3, 3, is_log)
    xs = [2 + n * (width - 4) / (len(values) - 1) for n in range(len(values))]
    ys = [scale(v) if math.isfinite(v) else math.nan for v in values]
    return element(
        "svg",
        titled(title),
        element("path", d=path_of(xs, ys), class_="curve s0"),
        viewbox=f"0 0 {width} {height}",
        class_="spark",
        role="img",
    )


def funnel(
    stages: Sequence[tuple[str, float]], *, title: str, lang: str, unit: str = "", width: int = 760
) -> str:
    """One bar a stage, as long as what it left of the first stage's amount."""
    most = max((amount for _, amount in stages), default=0) or 1
    label, room, row = 170, width - 170 - 150, 26
    parts = []
    for n, (name, amount) in enumerate(stages):
        y = n * row
        share = amount / most
        parts.append(text(name, x=label - 10, y=y + 16, class_="bar-name", text_anchor="end"))
        parts.append(element("rect", x=label, y=y + 5, width=room, height=14, rx=2, class_="bar-back"))
        parts.append(
            element("rect", x=label, y=y + 5, width=max(1.0, room * share), height=14, rx=2, class_="bar s0")
        )
        shown = f"{numbers.compact(amount, lang)}{unit} · {numbers.percent(share, lang)}"
        parts.append(text(shown, x=label + room + 10, y=y + 16, class_="bar-value"))
    return element(
        "svg",
        titled(title),
        *parts,
        viewbox=f"0 0 {width} {max(1, len(stages)) * row + 4}",
        class_="chart",
        role="img",
    )


def histogram(
    edges: Sequence[float],
    counts: Sequence[float],
    *,
    title: str,
    lang: str,
    x_label: str,
    line_at: float | None = None,
    line_label: str = "",
    width: int = 760,
    height: int = 220,
    show: Callable[[float], str] | None = None,
) -> str:
    """Bars between `edges` (n+1 of them, equal widths drawn), with one vertical line such as the context length."""
    left, right, top, bottom = 56, 20, 18, 34
    bars = len(counts)
    if not bars:
        return ""
    show = show or (lambda value: numbers.compact(value, lang))
    most = max(counts) or 1
    step = (width - left - right) / bars
    parts = []
    for tick in linear_ticks(0, most, 4):
        y = height - bottom - tick / most * (height - top - bottom)
        parts.append(element("line", x1=left, x2=width - right, y1=y, y2=y, class_="grid"))
        parts.append(
            text(numbers.compact(tick, lang), x=left - 8, y=y + 3.5, class_="tick", text_anchor="end")
        )
    for n, count in enumerate(counts):
        tall = count / most * (height - top - bottom)
        bar = element(
            "rect",
            x=left + n * step + 1,
            y=height - bottom - tall,
            width=max(1.0, step - 2),
            height=tall,
            class_="bar s0",
        )
        parts.append(
            element(
                "g", titled(f"{show(edges[n])}–{show(edges[n + 1])}: {numbers.compact(count, lang)}"), bar
            )
        )
        if n % max(1, bars // 8) == 0:
            parts.append(
                text(
                    show(edges[n]),
                    x=left + n * step,
                    y=height - bottom + 16,
                    class_="tick",
                    text_anchor="middle",
                )
            )
    if line_at is not None:
        x = left + step * _position(edges, line_at)
        parts.append(element("line", x1=x, x2=x, y1=top, y2=height - bottom, class_="limit"))
        parts.append(
            text(
                line_label,
                x=x - 6,
                y=top - 4,
                class_="axis-name",
                text_anchor="end" if x > width / 2 else "start",
            )
        )
    parts.append(text(x_label, x=width - right, y=height - 4, class_="axis-name", text_anchor="end"))
    return element("svg", titled(title), *parts, viewbox=f"0 0 {width} {height}", class_="chart", role="img")


def _position(edges: Sequence[float], value: float) -> float:
    """Where `value` lies among the edges, in bars."""
    for n in range(len(edges) - 1):
        if value < edges[n + 1]:
            return n + max(0.0, (value - edges[n]) / ((edges[n + 1] - edges[n]) or 1))
    return float(len(edges) - 1)
