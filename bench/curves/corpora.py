"""Small corpora for the labelled curves: texts every Python has, public-domain novels, speeches, technical pages and tales.

The first half of the bench (thresholds are set on it) uses the standard library; the scored half uses other
text, so that a threshold fitted to one corpus cannot pass by accident.
"""

from __future__ import annotations

import ast
import gzip
import json
import os
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
VAL_BYTES = 60_000


@dataclass(frozen=True)
class Domain:
    """Training and validation bytes of one slice; validation never overlaps training."""

    train: Bytes
    val: Bytes


def _split(text: str, limit: int) -> Domain:
    data = np.frombuffer(text.encode("utf-8")[: limit + VAL_BYTES], dtype=np.uint8)
    return Domain(train=data[VAL_BYTES:], val=data[:VAL_BYTES])


def stdlib(limit: int = 1_500_000) -> dict[str, Domain]:
    """Code and documentation strings of the running Python's standard library."""
    root = Path(sysconfig.get_paths()["stdlib"])
    code: list[str] = []
    prose: list[str] = []
    for path in sorted(root.glob("*.py")) + sorted(root.glob("*/*.py")):
        if "site-packages" in path.parts or "test" in path.parts or "idlelib" in path.parts:
            continue
        try:
            text = path.read_text("utf-8")
            tree = ast.parse(text)
        except (UnicodeDecodeError, SyntaxError):
            continue
        code.append(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                prose.append((ast.get_docstring(node) or "") + "\n")
    return {
        "code.python": _split("\n".join(code), limit),
        "documentation.en": _split("\n".join(prose), limit),
    }


def novels(limit: int = 1_500_000) -> dict[str, Domain]:
    """English and French novels from the folder named by UMSICHT_TEST_DATA."""
    folder = Path(os.environ["UMSICHT_TEST_DATA"]) / "books"
    english = ["en-pride-and-prejudice", "en-sherlock-holmes", "en-frankenstein"]
    french = ["fr-madame-bovary", "fr-candide"]

    def read(names: list[str]) -> str:
        return "\n".join(
            gzip.open(folder / f"{name}.txt.gz", "rt", encoding="utf-8").read() for name in names
        )

    return {"fiction.en": _split(read(english), limit), "fiction.fr": _split(read(french), limit)}


def public(limit: int = 1_500_000) -> dict[str, Domain]:
    """Speeches in English and technical pages in German from the folder named by UMSICHT_TEST_DATA."""
    folder = Path(os.environ["UMSICHT_TEST_DATA"])
    speeches = _texts(folder / "us-state-union" / "us-state-union.jsonl.gz")
    pages = _texts(folder / "fastapi-docs" / "de.jsonl.gz")
    return {"speech.en": _split(speeches, limit), "web.de": _split(pages, limit)}


def tales(limit: int = 1_500_000) -> dict[str, Domain]:
    """Short stories in English and Don Quijote in Spanish from the folder named by UMSICHT_TEST_DATA."""
    folder = Path(os.environ["UMSICHT_TEST_DATA"])
    places = (
        folder / "tinystories-sample" / "tiny_stories.txt.gz",
        folder / "books" / "es-don-quijote.txt.gz",
    )
    stories, novel = (gzip.decompress(place.read_bytes()).decode("utf-8") for place in places)
    return {"stories.en": _split(stories, limit), "fiction.es": _split(novel, limit)}


def _texts(path: Path) -> str:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return "\n".join(json.loads(line)["text"] for line in file)


CORPORA = {"stdlib": stdlib, "novels": novels, "public": public, "tales": tales}
