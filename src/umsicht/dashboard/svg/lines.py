"""Line charts: curves with a dash pattern and a label at their end, marks for events, honest axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from umsicht.dashboard import numbers
from umsicht.dashboard.svg.element import DASHES, element, path_of, text, titled
from umsicht.dashboard.svg.scale import Scale, fitted, tick_digits

LEFT, TOP, BOTTOM = 56, 14, 34
LABEL_HEIGHT, CHARACTER = 13.0, 6.6


@dataclass(frozen=True)
class Line:
    """One curve. `slot` chooses colour and dash pattern (0–5); a `faint` line is history that a restart replaced."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    slot: int = 0
    faint: bool = False
    dots: bool = False


@dataclass(frozen=True)
class Mark:
    """An event on the x axis: `kind` is `nonfinite`, `spike`, `restart` or `limit`."""

    x: float
    kind: str
    label: str = ""


def line_chart(
    lines: Sequence[Line],
    *,
    title: str,
    summary: str,
    lang: str,
    x_label: str,
    y_label: str = "",
    marks: Sequence[Mark] = (),
    width: int = 760,
    height: int = 270,
    log_y: bool | None = None,
    x_format: Callable[[float], str] | None = None,
    limit: float | None = None,
) -> str:
    """An SVG figure. `summary` is what a screen reader says of it. `log_y=None` takes a logarithmic axis where the values span more than
    a factor of six, and the axis label says so. `limit` draws one horizontal line (a clipping threshold, a baseline)."""
    drawn = [line for line in lines if any(math.isfinite(value) for value in line.y)]
    frame = (width, height)
    if not drawn:
        return _svg(frame, title, summary, [text("–", x=width / 2, y=height / 2, class_="empty")])
    values = [v for line in drawn for v in line.y if math.isfinite(v)] + (
        [limit] if limit is not None else []
    )
    positions = [v for line in drawn for v in line.x if math.isfinite(v)]
    positions += [mark.x for mark in marks if mark.kind == "nonfinite"]
    has_labels = len({line.name for line in drawn}) > 1
    right = label_room(drawn, width) if has_labels else 16
    is_log = min(values) > 0 and (log_y if log_y is not None else max(values) / min(values) > 6)
    sx = Scale(
        min(positions),
        max(positions) if max(positions) > min(positions) else min(positions) + 1,
        LEFT,
        width - right,
    )
    sy = fitted(min(values), max(values), height - BOTTOM, TOP, is_log=is_log)
    parts = _y_axis(sy, width - right, lang)
    parts += _x_axis(sx, height, x_format or (lambda value: tick_text(value, 0, lang)))
    parts += (
        _limit(limit, sy, width - right)
        + _marks(marks, sx, height)
        + _curves(drawn, sx, sy)
        + (_end_labels(drawn, sx, sy, width - right, right) if has_labels else [])
    )
    parts.append(text(x_label, x=width - right, y=height - 4, class_="axis-name", text_anchor="end"))
    if y_label:
        parts.append(text(y_label + (" · log" if is_log else ""), x=LEFT, y=TOP - 4, class_="axis-name"))
    return _svg(frame, title, summary, parts)


def _svg(frame: tuple[int, int], title: str, summary: str, parts: list[str]) -> str:
    width, height = frame
    return element(
        "svg",
        titled(f"{title}. {summary}" if summary else title),
        *parts,
        viewbox=f"0 0 {width} {height}",
        class_="chart",
        role="img",
    )


def _y_axis(scale: Scale, end: int, lang: str) -> list[str]:
    ticks = scale.ticks(5)
    digits = tick_digits(ticks)
    parts = []
    for tick in ticks:
        y = scale(tick)
        parts.append(element("line", x1=LEFT, x2=end, y1=y, y2=y, class_="grid"))
        parts.append(
            text(tick_text(tick, digits, lang), x=LEFT - 8, y=y + 3.5, class_="tick", text_anchor="end")
        )
    return parts


def tick_text(tick: float, digits: int, lang: str) -> str:
    """A tick's number: plain where that is short, an SI prefix above ten thousand, powers of ten below a thousandth."""
    if tick and abs(tick) >= 10000:
        return numbers.compact(tick, lang)
    if tick and abs(tick) < 1e-3:
        return numbers.number(tick, lang, 3)
    return numbers.number(float(tick), lang, digits) if digits else numbers.number(round(tick), lang)


def _x_axis(scale: Scale, height: int, show: Callable[[float], str]) -> list[str]:
    parts = [element("line", x1=LEFT, x2=scale.end, y1=height - BOTTOM, y2=height - BOTTOM, class_="axis")]
    for tick in scale.ticks(6):
        x = scale(tick)
        parts.append(element("line", x1=x, x2=x, y1=height - BOTTOM, y2=height - BOTTOM + 4, class_="axis"))
        parts.append(text(show(tick), x=x, y=height - BOTTOM + 16, class_="tick", text_anchor="middle"))
    return parts


def _limit(limit: float | None, scale: Scale, end: int) -> list[str]:
    if limit is None:
        return []
    return [element("line", x1=LEFT, x2=end, y1=scale(limit), y2=scale(limit), class_="limit")]


def _marks(marks: Sequence[Mark], scale: Scale, height: int) -> list[str]:
    parts = []
    for mark in marks:
        if not scale.low <= mark.x <= scale.high:
            continue
        x = scale(mark.x)
        line = element("line", x1=x, x2=x, y1=TOP, y2=height - BOTTOM, class_=f"mark {mark.kind}")
        flag = {"nonfinite": "✕", "spike": "▲", "restart": "↻"}.get(mark.kind, "")
        sign = (
            text(flag, x=x, y=TOP + 2, class_=f"mark-sign {mark.kind}", text_anchor="middle") if flag else ""
        )
        parts.append(element("g", titled(mark.label), line, sign) if mark.label else line + sign)
    return parts


def _curves(lines: Sequence[Line], sx: Scale, sy: Scale) -> list[str]:
    parts = []
    for line in lines:
        slot = line.slot % len(DASHES)
        xs, ys = [sx(x) for x in line.x], [sy(y) if math.isfinite(y) else math.nan for y in line.y]
        look = f"curve s{slot}" + (" faint" if line.faint else "")
        dash = "3 4" if line.faint else DASHES[slot] or None
        parts.append(
            element("path", titled(line.name), d=path_of(xs, ys), class_=look, stroke_dasharray=dash)
        )
        if line.dots or len(line.x) <= 2:
            parts += [
                element("circle", cx=x, cy=y, r=2.2, class_=f"dot s{slot}")
                for x, y in zip(xs, ys, strict=True)
                if y == y
            ]
    return parts


def label_room(lines: Sequence[Line], width: int) -> int:
    """Pixels right of the frame for the names: as wide as the longest, at most a fifth of the chart (108 at least)."""
    longest = max(min(24, len(line.name)) for line in lines)
    return int(min(18 + CHARACTER * longest, max(108, width / 5)))


def _end_labels(lines: Sequence[Line], sx: Scale, sy: Scale, end: int, room: int) -> list[str]:
    """Names at the curves' ends, moved apart where they would overlap, with a hair line to the end they belong to."""
    ends = []
    for line in lines:
        finite = [
            (x, y) for x, y in zip(line.x, line.y, strict=True) if math.isfinite(x) and math.isfinite(y)
        ]
        if line.faint or not finite or math.isnan(sy(finite[-1][1])):
            continue
        ends.append((sy(finite[-1][1]), sx(finite[-1][0]), line))
    ends.sort(key=lambda item: item[0])
    places = spread([height for height, _, _ in ends], LABEL_HEIGHT)
    parts = []
    for (y, x, line), place in zip(ends, places, strict=True):
        left = end + 10
        slot = line.slot % len(DASHES)
        parts.append(element("path", d=f"M{x:.1f} {y:.1f}L{left - 2:.1f} {place:.1f}", class_="leader"))
        parts.append(
            text(
                shorten(line.name, int((room - 12) / CHARACTER)), x=left, y=place + 3.5, class_=f"end s{slot}"
            )
        )
    return parts


def spread(places: Sequence[float], gap: float) -> list[float]:
    """The ascending `places`, moved as little as needed so that neighbours are at least `gap` apart."""
    groups = [[place] for place in places]
    merged = True
    while merged:
        merged = False
        for first, second in pairwise(list(groups)):
            if _centre(second) - _half(second, gap) < _centre(first) + _half(first, gap):
                at = groups.index(first)
                groups[at : at + 2] = [first + second]
                merged = True
                break
    return [_centre(group) + (n - (len(group) - 1) / 2) * gap for group in groups for n in range(len(group))]


def _centre(group: Sequence[float]) -> float:
    return sum(group) / len(group)


def _half(group: Sequence[float], gap: float) -> float:
    return len(group) * gap / 2


def shorten(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
