"""The house drawn from the code: every package, what it imports, and that no arrow points upwards."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import umsicht

SOURCE = Path(umsicht.__file__).parent
CONTRACTS = Path(__file__).resolve().parents[1] / "design" / "contracts.md"


def order() -> list[str]:
    """Packages in the order of the contracts page, which `tests/test_house.py` enforces."""
    listed = re.search(r"`(words → [^`]*)`", CONTRACTS.read_text(encoding="utf-8"))
    if listed is None:
        raise LookupError(f"no order of packages in {CONTRACTS.name}")
    return [name.strip() for name in listed[1].replace("\n", " ").split("→") if name.strip()]


ORDER = order()
CELL = 26


def imports() -> dict[str, Counter[str]]:
    """Package → how many of its files import from which other package."""
    found: dict[str, Counter[str]] = {name: Counter() for name in ORDER}
    for package in ORDER:
        for path in (SOURCE / package).rglob("*.py"):
            found[package].update(_imported(path) - {package})
    return found


def _imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= (
                {f"{node.module}.{alias.name}" for alias in node.names}
                if node.module == "umsicht"
                else {node.module}
            )
    parts = [name.split(".") for name in names]
    return {part[1] for part in parts if part[0] == "umsicht" and len(part) > 1 and part[1] in ORDER}


def about(package: str) -> str:
    """First line of the package's docstring."""
    text = ast.get_docstring(ast.parse((SOURCE / package / "__init__.py").read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def drawing(found: dict[str, Counter[str]]) -> str:
    """A square of rows that import and columns that are imported, as SVG: everything below the diagonal, or the house is broken."""
    left, top, n = 110, 96, len(ORDER)
    width, height = left + n * CELL + 10, top + n * CELL + 10
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" '
            f'aria-label="Which package imports which" style="max-width:100%;height:auto" font-family="sans-serif" font-size="12" fill="currentColor">'
        )
    ]
    for i, name in enumerate(ORDER):
        x, y = left + i * CELL, top + i * CELL
        parts.append(f'<text x="{left - 8}" y="{y + 17}" text-anchor="end">{name}</text>')
        parts.append(
            f'<text x="{x + 17}" y="{top - 8}" transform="rotate(-60 {x + 17} {top - 8})">{name}</text>'
        )
        parts.append(
            f'<rect x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="{CELL - 2}" fill="currentColor" opacity="0.75"/>'
        )
    for i, importer in enumerate(ORDER):
        for j, imported in enumerate(ORDER):
            count = found[importer][imported]
            if i != j:
                opacity = min(0.75, 0.12 + 0.04 * count) if count else 0.03
                x, y = left + j * CELL, top + i * CELL
                colour = "#009E73" if j < i else ("#D55E00" if count else "currentColor")
                parts.append(
                    f'<rect x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="{CELL - 2}" fill="{colour}" opacity="{opacity:.2f}"/>'
                )
                if count:
                    parts.append(
                        f'<text x="{x + CELL / 2}" y="{y + 17}" text-anchor="middle" font-size="10">{count}</text>'
                    )
    return "".join(parts) + "</svg>"


def page() -> str:
    """The drawing and one line a package."""
    found = imports()
    upward = [f"{a} → {b}" for a in ORDER for b in found[a] if ORDER.index(b) > ORDER.index(a)]
    lines = [
        "# The house",
        "",
        "Drawn from the code when this site was built. A row imports from a column; the number counts files. Everything stands below the diagonal: a package "
        "imports only from packages above it, so there are no circles"
        + ("." if not upward else f" – **except {', '.join(upward)}**."),
        "`tests/test_house.py` fails where that stops being true.",
        "",
        drawing(found),
        "",
        "| package | files | what lives there | imports from |",
        "|---|---|---|---|",
    ]
    for package in ORDER:
        files = len(list((SOURCE / package).rglob("*.py")))
        above = ", ".join(name for name in ORDER if found[package][name]) or "—"
        lines.append(f"| `{package}` | {files} | {about(package).replace('|', '/')} | {above} |")
    lines += [
        "",
        "What passes between them stands in [the contracts](contracts.md), why it is so in [why](why.md).",
    ]
    return "\n".join(lines) + "\n"
