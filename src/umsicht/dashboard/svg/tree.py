"""Lineage as a tree: the newest thing on the left, what it was made from to the right, source files at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from umsicht.dashboard.svg.element import element, text, titled

BOX, GAP_X, ROW = 216, 34, 54
LONGEST = 27


def tree(root: Mapping[str, Any], *, title: str) -> str:
    """Draw nested mappings with `kind`, `name`, `id`, `missing` and `parents`.

    What something was made from is drawn once; where the same thing occurs again its box ends with "↑".
    """
    boxes: list[str] = []
    links: list[str] = []
    rows, depth = _place(root, 0, 0, boxes, links, set())
    width = (depth + 1) * BOX + depth * GAP_X + 4
    return element(
        "svg",
        titled(title),
        *links,
        *boxes,
        viewbox=f"0 0 {width} {max(1, rows) * ROW}",
        class_="chart tree",
        role="img",
        width=width,
    )


def _place(
    node: Mapping[str, Any], depth: int, row: int, boxes: list[str], links: list[str], drawn: set[str]
) -> tuple[int, int]:
    """Put `node` at (`depth`, `row`) and its parents to the right; returns rows used and the depth reached."""
    x, y = depth * (BOX + GAP_X) + 2, row * ROW + 4
    used, deepest = 0, depth
    parents: Sequence[Mapping[str, Any]] = node.get("parents") or ()
    identity = str(node.get("id") or "")
    again = bool(parents) and bool(identity) and identity in drawn
    drawn.add(identity)
    boxes.append(_box(node, x, y, again))
    if again:
        return 1, depth
    for parent in parents:
        target = (row + used) * ROW + 4 + 20
        links.append(_link(x + BOX, y + 20, x + BOX + GAP_X, target))
        rows, reached = _place(parent, depth + 1, row + used, boxes, links, drawn)
        used += rows
        deepest = max(deepest, reached)
    return max(1, used), deepest


def _link(x1: float, y1: float, x2: float, y2: float) -> str:
    half = (x1 + x2) / 2
    return element("path", d=f"M{x1} {y1}C{half} {y1} {half} {y2} {x2} {y2}", class_="leader")


def _box(node: Mapping[str, Any], x: float, y: float, again: bool) -> str:
    name = str(node.get("name") or node.get("kind") or "?")
    name = name.removeprefix(f"{node.get('kind')}:")
    longest = LONGEST - 2 * again
    shown = (name if len(name) <= longest else name[: longest - 1] + "…") + (" ↑" if again else "")
    identity = str(node.get("id") or "").removeprefix("sha256:")[:12]
    look = "node missing" if node.get("missing") else "node"
    return element(
        "g",
        titled(f"{node.get('kind')} {name} {node.get('id') or ''}"),
        element("rect", x=x, y=y, width=BOX, height=42, rx=5, class_=look),
        text(shown, x=x + 10, y=y + 18, class_="node-name"),
        text(
            " ".join(part for part in (str(node.get("kind") or ""), identity) if part),
            x=x + 10,
            y=y + 33,
            class_="tick",
        ),
    )
