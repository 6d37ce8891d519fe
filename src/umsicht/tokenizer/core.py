"""The tokenizer that every other room holds: text to ids and back, byte for byte.

Ids come from `tiktoken`, built from the merges of a `tokenizer.json`, because it encodes several times faster than the library that
trained them. Both cut text with the same expression and merge by the same ranks; loading asserts equal ids on a fixed sample. A foreign
`tokenizer.json` that is not byte-level BPE keeps the `tokenizers` engine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from umsicht.findings.errors import UserError
from umsicht.record.ids import bytes_digest
from umsicht.tokenizer import pretokenize
from umsicht.tokenizer.adversarial import ADVERSARIAL
from umsicht.tokenizer.special import EOS, PAD
from umsicht.tokenizer.spelling import entries, speller
from umsicht.words import t

Ids = NDArray[np.uint32]

FILE_NAME = "tokenizer.json"
# Names that published tokenizers give to the end of a document.
_FOREIGN_EOS = (EOS, "</s>", "<|end_of_text|>", "<eos>", "<|eot_id|>", "[SEP]")
_FOREIGN_BOS = ("<s>", "<|begin_of_text|>", "<bos>", "[CLS]")
_FOREIGN_PAD = (PAD, "<pad>", "[PAD]")


class Tokenizer:
    """Text ↔ ids. `encode` never turns literal text such as `<|endoftext|>` into a special token."""

    def __init__(self, definition: dict[str, Any], *, check: bool = True) -> None:
        """`definition` is a parsed `tokenizer.json`. Raises UserError where its two engines disagree."""
        self.definition = definition
        self.special: dict[str, int] = {
            str(token["content"]): int(token["id"])
            for token in definition.get("added_tokens", ())
            if token.get("special", True)
        }
        self._pattern = _pattern_of(definition)
        self._fast = _tiktoken_from(definition, self._pattern)
        if self._fast is not None and check:
            self.assert_equal_ids(ADVERSARIAL)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, check: bool = True) -> Tokenizer:
        """Read an artifact folder or a Hugging Face `tokenizer.json`. Raises UserError where there is none or it is broken."""
        path = Path(path)
        file = path / FILE_NAME if path.is_dir() else path
        try:
            definition = orjson.loads(file.read_bytes())
            definition["model"]["vocab"]
        except FileNotFoundError as error:
            raise UserError(
                t("tokenizer.file_missing", file=str(file)), fix=t("tokenizer.file_missing_fix")
            ) from error
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise UserError(
                t("tokenizer.file_broken", file=str(file)),
                where=str(error),
                fix=t("tokenizer.file_missing_fix"),
            ) from error
        return cls(definition, check=check)

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, nothing added."""
        if self._fast is not None:
            return list(self._fast.encode_ordinary(text))
        return list(self._slow.encode(text, add_special_tokens=False).ids)

    def encode_array(self, text: str) -> Ids:
        """Ids of `text`, `[n]` uint32; releases the interpreter lock."""
        if self._fast is not None:
            ids: Ids = self._fast.encode_to_numpy(text, disallowed_special=())
            return ids
        return np.asarray(self.encode(text), dtype=np.uint32)

    def encode_batch(self, texts: Sequence[str], threads: int | None = None) -> list[list[int]]:
        """Ids of each text, computed on `threads` threads (default: the processors this process may use)."""
        if self._fast is None:
            return [
                list(found.ids)
                for found in self._slow.encode_batch_fast(list(texts), add_special_tokens=False)
            ]
        if len(texts) < 2 or (threads or n_threads()) == 1:
            return [self.encode(text) for text in texts]
        with ThreadPoolExecutor(threads or n_threads()) as pool:
            return list(pool.map(self.encode, texts))

    def decode(self, ids: Iterable[int]) -> str:
        """Text of `ids`, special tokens spelled out; bytes that are no UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", errors="replace")

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Raw bytes of `ids`. Raises IndexError for an id that does not exist."""
        if self._fast is None:
            return str(self._slow.decode(list(ids), skip_special_tokens=False)).encode()
        table = self._bytes
        return b"".join(table[_checked(number, len(table))] for number in ids)

    def token_bytes(self, number: int) -> bytes:
        """The raw bytes of one id; special tokens give their name."""
        return self._bytes[_checked(number, len(self._bytes))]

    @cached_property
    def n_tokens(self) -> int:
        """All ids, special ones included: one more than the largest id."""
        ids = (number for _, number in entries(self.definition))
        return 1 + max(max(ids, default=-1), max(self.special.values(), default=-1))

    @property
    def has_end(self) -> bool:
        """Whether there is an id that ends a document."""
        return any(name in self.special for name in _FOREIGN_EOS)

    @property
    def eos_id(self) -> int:
        """The id that ends a document. Raises UserError where the tokenizer has none."""
        for name in _FOREIGN_EOS:
            if name in self.special:
                return self.special[name]
        raise UserError(t("tokenizer.no_eos"), fix=t("tokenizer.no_eos_fix", names=", ".join(_FOREIGN_EOS)))

    @property
    def bos_id(self) -> int | None:
        """The id that begins a document, or None: Umsicht's own tokenizers have none."""
        return next((self.special[name] for name in _FOREIGN_BOS if name in self.special), None)

    @property
    def pad_id(self) -> int:
        """The id that fills rows; the end token where the tokenizer has no own one (it is never a target)."""
        return next((self.special[name] for name in _FOREIGN_PAD if name in self.special), self.eos_id)

    @property
    def pre_tokenizer(self) -> str | None:
        """llama.cpp's name of the cutting expression; None where it knows none."""
        return None if self._pattern is None else pretokenize.name_of(self._pattern)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what decides the ids: vocabulary, merges, cutting expression, normaliser, special tokens."""
        deciding = ("model", "pre_tokenizer", "normalizer", "added_tokens")
        return bytes_digest(
            orjson.dumps([self.definition.get(key) for key in deciding], option=orjson.OPT_SORT_KEYS)
        )

    @property
    def is_byte_level(self) -> bool:
        """Whether any bytes survive the way to ids and back."""
        return self._fast is not None

    def assert_equal_ids(self, texts: Iterable[str]) -> int:
        """Encode with both engines; return how many texts were compared. Raises UserError at the first difference."""
        compared = 0
        for text in texts:
            slow = list(self._slow.encode(text, add_special_tokens=False).ids)
            fast = self.encode(text)
            if slow != fast:
                at = next(
                    (i for i, pair in enumerate(zip(slow, fast, strict=False)) if pair[0] != pair[1]), 0
                )
                raise UserError(
                    t("tokenizer.engines_differ", position=at),
                    where=repr(text[:60]),
                    why=t("tokenizer.engines_differ_why"),
                    fix=t("tokenizer.engines_differ_fix"),
                )
            compared += 1
        return compared

    @cached_property
    def _slow(self) -> Any:
        from tokenizers import Tokenizer as HuggingFaceTokenizer

        engine = HuggingFaceTokenizer.from_str(orjson.dumps(self.definition).decode())
        engine.encode_special_tokens = True
        engine.no_truncation()
        engine.no_padding()
        return engine

    @cached_property
    def _bytes(self) -> list[bytes]:
        table = [b""] * self.n_tokens
        spell = speller(self.definition)
        for token, number in entries(self.definition):
            table[number] = spell(token)
        for name, number in self.special.items():
            table[number] = name.encode()
        return table


def n_threads() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _checked(number: int, n: int) -> int:
    if not 0 <= number < n:
        raise IndexError(f"token id {number} is not in 0..{n - 1}")
    return int(number)


def _pattern_of(definition: dict[str, Any]) -> str | None:
    """The cutting expression of a byte-level pre-tokenizer, or None where it is of another kind."""
    outer = definition.get("pre_tokenizer") or {}
    parts = outer.get("pretokenizers", [outer])
    kinds = [part.get("type") for part in parts]
    if kinds == ["Split", "ByteLevel"]:
        split, level = parts
        plain = (
            split.get("behavior") == "Isolated"
            and not split.get("invert")
            and not level.get("use_regex", True)
        )
        regex = split.get("pattern", {}).get("Regex")
        return str(regex) if plain and regex and not level.get("add_prefix_space") else None
    if kinds == ["ByteLevel"] and parts[0].get("use_regex", True) and not parts[0].get("add_prefix_space"):
        return pretokenize.PATTERNS["gpt-2"]
    return None


def _tiktoken_from(definition: dict[str, Any], pattern: str | None) -> Any:
    """A tiktoken encoding of a byte-level BPE `tokenizer.json`; None where it is none, or normalises text first."""
    model = definition["model"]
    if pattern is None or model.get("type") != "BPE" or definition.get("normalizer"):
        return None
    if model.get("byte_fallback") or model.get("unk_token") or model.get("dropout"):
        return None
    import tiktoken

    special = {str(token["content"]): int(token["id"]) for token in definition.get("added_tokens", ())}
    try:
        ranks = {
            pretokenize.to_bytes(token): number
            for token, number in model["vocab"].items()
            if token not in special
        }
    except KeyError:
        return None
    if sum(len(raw) == 1 for raw in ranks) != 256 or not _merges_follow_ids(model):
        return None
    return tiktoken.Encoding("umsicht", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)


def _merges_follow_ids(model: dict[str, Any]) -> bool:
    """Whether merging by the id of the result is the same as merging by the order of the merges: ids must rise with them."""
    vocabulary, before = model["vocab"], -1
    for merge in model.get("merges", ()):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        number = vocabulary.get(left + right, -1)
        if number <= before:
            return False
        before = number
    return True
