"""MkDocs hook: adds the pages that are written from the code, and fills `folder/*` in the navigation with what is there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mkdocs.structure.files import File, Files

from _site import commands, findings, house, python, recipe

DOCS = Path(__file__).resolve().parents[1]
ROOMS = [
    "corpus",
    "tokenizer",
    "tokens",
    "plan",
    "model",
    "train",
    "guards",
    "diagnose",
    "evaluate",
    "ratings",
    "finetune",
    "export",
    "dashboard",
]
"""Pages of the rooms in the order of the house; further pages beside them follow by name."""


def pages() -> dict[str, str]:
    """Every page that is written from the code: path below docs/ → text."""
    return {
        "reference/recipe.md": recipe.page(),
        "reference/commands.md": commands.page(),
        "reference/python.md": python.page(),
        "reference/findings.md": findings.page("en"),
        "de/reference/befunde.md": findings.page("de"),
        "design/house.md": house.page(),
    }


def on_config(config: Any) -> Any:
    """Resolve the patterns of the navigation."""
    config.nav = _resolve(config.nav, _named(config.nav))
    return config


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages that are written from the code."""
    for path, text in pages().items():
        stub = files.get_file_from_path(path)  # what a reader without the site finds under this name
        if stub is not None:
            files.remove(stub)
        files.append(File.generated(config, path, content=text))
    return files


def _named(nav: Any) -> set[str]:
    """Pages that the navigation names one by one."""
    if isinstance(nav, list):
        return {name for entry in nav for name in _named(entry)}
    if isinstance(nav, dict):
        return {name for entry in nav.values() for name in _named(entry)}
    return {nav}


def _resolve(nav: Any, named: set[str]) -> Any:
    if isinstance(nav, list):
        out: list[Any] = []
        for entry in nav:
            if isinstance(entry, str) and entry.endswith("/*"):
                out += [page for page in _folder(entry) if page not in named]
            else:
                out.append(_resolve(entry, named))
        return out
    if isinstance(nav, dict):
        return {title: _resolve(entry, named) for title, entry in nav.items()}
    if nav == "rooms":
        others = sorted(path.name for path in DOCS.glob("*.md") if path.name not in named)
        ordered = [f"{name}.md" for name in ROOMS if f"{name}.md" in others]
        return ordered + [name for name in others if name not in ordered]
    return _folder(nav) if nav.endswith("/*") else nav


def _folder(pattern: str) -> list[str]:
    """Pages of a folder: its index or README first, the others by name."""
    folder = pattern.removesuffix("/*")
    names = sorted(path.name for path in (DOCS / folder).glob("*.md"))
    first = [name for name in names if name in ("index.md", "README.md")]
    return [f"{folder}/{name}" for name in [*first, *(name for name in names if name not in first)]]
