"""Elements as strings, escaped once and in one place."""

from __future__ import annotations

from html import escape

DASHES = ("", "7 3", "2 3", "10 3 2 3", "5 2", "1 3")


def element(tag: str, *children: str, **attributes: object) -> str:
    """`<tag …>children</tag>`. Attribute names: `class_` → `class`, other underscores → hyphens, except in SVG's camel-case names.
    Children are trusted markup: put text through `text`."""
    written = "".join(
        f' {_name(key)}="{escape(_value(value))}"' for key, value in attributes.items() if value is not None
    )
    return f"<{tag}{written}>{''.join(children)}</{tag}>" if children else f"<{tag}{written}/>"


def text(content: object, **attributes: object) -> str:
    """A `<text>` element with escaped content."""
    return element("text", escape(str(content)), **attributes)


def titled(content: str) -> str:
    """A `<title>` that browsers show on hover and screen readers read."""
    return f"<title>{escape(content)}</title>"


def _name(key: str) -> str:
    return "viewBox" if key == "viewbox" else key.rstrip("_").replace("_", "-")


def _value(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def path_of(xs: list[float], ys: list[float]) -> str:
    """SVG path data through the points; NaN breaks the line."""
    parts: list[str] = []
    pen_down = False
    for x, y in zip(xs, ys, strict=True):
        if x != x or y != y:
            pen_down = False
            continue
        parts.append(f"{'L' if pen_down else 'M'}{x:.1f} {y:.1f}")
        pen_down = True
    return "".join(parts)
