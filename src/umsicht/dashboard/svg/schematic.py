"""The four textbook pictures of training and validation loss, drawn by formula and labelled as schematic wherever they are shown."""

from __future__ import annotations

import math
from collections.abc import Callable

from umsicht.dashboard.svg.element import DASHES, element, path_of, titled

Curve = Callable[[float], float]

PATTERNS: dict[str, tuple[Curve, Curve]] = {
    "underfit": (lambda x: 0.86 - 0.10 * x, lambda x: 0.89 - 0.10 * x),
    "overfit": (
        lambda x: 0.10 + 0.80 * math.exp(-3.2 * x),
        lambda x: 0.34 + 0.58 * math.exp(-5 * x) + 0.42 * max(0.0, x - 0.32) ** 1.5,
    ),
    "leak": (lambda x: 0.05 + 0.10 * math.exp(-14 * x), lambda x: 0.08 + 0.09 * math.exp(-14 * x)),
    "healthy": (lambda x: 0.22 + 0.68 * math.exp(-4 * x), lambda x: 0.27 + 0.65 * math.exp(-3.7 * x)),
}


def schematic(pattern: str, *, title: str, width: int = 220, height: int = 120) -> str:
    """A small sketch of one pattern: training solid, validation dashed, no numbers on purpose."""
    train, validation = PATTERNS[pattern]
    left, bottom, top, right = 10, 10, 8, 8
    xs = [n / 60 for n in range(61)]

    def place(curve: Curve) -> str:
        px = [left + x * (width - left - right) for x in xs]
        py = [top + (1 - min(1.0, max(0.0, curve(x)))) * (height - top - bottom) for x in xs]
        return path_of(px, py)

    axes = element("path", d=f"M{left} {top}V{height - bottom}H{width - right}", class_="axis")
    curves = [
        element("path", d=place(train), class_="curve s0"),
        element("path", d=place(validation), class_="curve s1", stroke_dasharray=DASHES[1]),
    ]
    return element(
        "svg",
        titled(title),
        axes,
        *curves,
        viewbox=f"0 0 {width} {height}",
        class_="chart schematic",
        role="img",
    )
