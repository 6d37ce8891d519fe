"""Every sentence the code asks for stands in the catalogues."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from umsicht.words import LANGUAGES, t

SOURCES = Path(__file__).resolve().parents[1] / "src" / "umsicht"


def asked() -> Iterator[tuple[str, str]]:
    """Place and key of each literal `t("…")`; a call with `count` needs both of its plural forms."""
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "t"):
                continue
            if node.args and isinstance(node.args[0], ast.Constant):
                plural = any(keyword.arg == "count" for keyword in node.keywords)
                for ending in (".one", ".other") if plural else ("",):
                    yield f"{path.relative_to(SOURCES)}:{node.lineno}", f"{node.args[0].value}{ending}"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_sentence_the_code_asks_for_exists(lang: str) -> None:
    keys = list(asked())
    assert len(keys) > 100
    assert [(place, key) for place, key in keys if t(key, lang=lang) == key] == []


def sentences_in_errors() -> Iterator[str]:
    """Words that a UserError says without asking the catalogue; a fix may be a command as one types it."""
    parts = ("what", "where", "why", "fix")
    commands = ("--", "pip install", "umsicht ")
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "UserError"):
                continue
            given = dict(zip(parts, node.args, strict=False))
            given.update({word.arg: word.value for word in node.keywords if word.arg in parts})
            for part in ("what", "why", "fix"):
                said = given.get(part)
                pieces = said.values if isinstance(said, ast.JoinedStr) else [said]
                words = [one.value for one in pieces if isinstance(one, ast.Constant)]
                text = "".join(word for word in words if isinstance(word, str))
                if any(letter.isalpha() for letter in text) and not (
                    part == "fix" and text.startswith(commands)
                ):
                    yield f"{path.relative_to(SOURCES)}:{node.lineno}: {text}"


def test_errors_for_users_are_said_in_the_catalogues_words() -> None:
    assert list(sentences_in_errors()) == []
