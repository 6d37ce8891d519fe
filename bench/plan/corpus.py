"""Text for the plan's bench: installed Python sources and their documentation strings, encoded once."""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from umsicht.recipe.tokenizer import TokenizerSettings
from umsicht.recipe.tokens import TokensSettings
from umsicht.record import Artifact, Store
from umsicht.tokenizer.stage import TokenizerInputs
from umsicht.tokenizer.stage import build as build_tokenizer
from umsicht.tokens.stage import TokensInputs
from umsicht.tokens.stage import build as build_tokens

VOCAB = 1024
EVERY = 12
"""Each twelfth file is set aside for validation."""


@dataclass(frozen=True)
class Text:
    """A document with its labels."""

    text: str
    source: str
    domain: str
    language: str


def documents(split: str, files: int) -> Iterator[Text]:
    """Code, and the documentation strings inside it, of the standard library."""
    for number, path in enumerate(sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py"))[:files]):
        if (number % EVERY == 0) != (split == "val"):
            continue
        try:
            code = path.read_text(encoding="utf-8")
            strings = [
                ast.get_docstring(node) for node in ast.walk(ast.parse(code)) if isinstance(node, _DOCUMENTED)
            ]
        except (OSError, UnicodeDecodeError, SyntaxError, ValueError):
            continue
        yield Text(code, "stdlib", "code", "en")
        prose = "\n\n".join(text for text in strings if text)
        if prose:
            yield Text(prose, "docstrings", "prose", "en")


_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def tokens(folder: Path, files: int = 700, vocab: int = VOCAB) -> tuple[Store, Artifact]:
    """A store with the encoded text."""
    store = Store(folder / "artifacts")
    made = build_tokenizer(
        TokenizerSettings(vocab_size=vocab, sample_bytes=3_000_000),
        TokenizerInputs(store, "stdlib", lambda: documents("train", files), lambda: documents("val", files)),
    )
    return store, build_tokens(
        TokensSettings(), TokensInputs(store, made, "stdlib", lambda split: documents(split, files))
    )
