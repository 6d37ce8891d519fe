"""The tokens stage: documents of both splits as ids on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from umsicht.findings import Finding, UserError
from umsicht.recipe.tokens import TokensSettings
from umsicht.record.artifact import Artifact, Store
from umsicht.record.files import atomic_json
from umsicht.record.progress import QUIET, Progress
from umsicht.tokenizer.core import Tokenizer
from umsicht.tokens.encode import Labelled, encode_documents
from umsicht.tokens.pooling import pools, rename
from umsicht.tokens.shards import FORMAT_VERSION, INDEX, ShardWriter, id_dtype
from umsicht.words import t

STAGE_VERSION = 1
KIND = "tokens"
SPLITS = ("train", "val")
USES = "uses.npy"
FEW_USES = 10
UNUSED_SHARE = 0.05


@dataclass(frozen=True)
class TokensInputs:
    """What the stage reads: `documents(split)` gives the documents of `train` or `val`."""

    store: Store
    tokenizer: Artifact
    corpus_id: str
    documents: Callable[[str], Iterable[Labelled]]
    name: str = "tokens"


class _Numbers:
    """Names to numbers in the order they are met."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))


def build(settings: TokensSettings, inputs: TokensInputs, *, progress: Progress = QUIET) -> Artifact:
    """Encode both splits and count how often each id is used (`uses.npy`); the finished artifact where the same was done before. Raises UserError where nothing is left to train on.

    Only the shard size enters the id: packing, mix and order are decided when rows are read, so changing them encodes nothing again.
    """

    def make(folder: Path) -> dict[str, Any]:
        tokenizer = Tokenizer.load(inputs.tokenizer.path)
        slices, sources = _Numbers(), _Numbers()
        report: dict[str, Any] = {
            split: _write_split(
                folder / split,
                tokenizer,
                inputs.documents(split),
                settings,
                (slices, sources),
                progress,
                split,
            )
            for split in SPLITS
        }
        pooled = _pool(folder / "val", report["val"], slices)
        if not report["train"]["tokens"]:
            raise UserError(t("tokens.no_text"), why=t("tokens.no_text_why"), fix=t("tokens.no_text_fix"))
        atomic_json(
            folder / INDEX,
            {
                "version": FORMAT_VERSION,
                "dtype": str(id_dtype(tokenizer.n_tokens)),
                "n_tokens": tokenizer.n_tokens,
                "eos_id": tokenizer.eos_id,
                "tokenizer_digest": tokenizer.digest,
                "slices": list(slices.names),
                "sources": list(sources.names),
                "pooled": pooled,
            },
        )
        found = unused_ids(report["train"], len(_ordinary(tokenizer)))
        report["findings"] = [finding.to_dict() for finding in found]
        return report

    return inputs.store.build(
        KIND,
        inputs.name,
        stage_version=STAGE_VERSION,
        settings={"shard_tokens": settings.shard_tokens},
        inputs={"corpus": inputs.corpus_id, "tokenizer": inputs.tokenizer.id},
        make=make,
    )


def _write_split(
    folder: Path,
    tokenizer: Tokenizer,
    documents: Iterable[Labelled],
    settings: TokensSettings,
    numbers: tuple[_Numbers, _Numbers],
    progress: Progress,
    split: str,
) -> dict[str, Any]:
    slice_number, source_number = numbers
    by_slice: dict[str, np.ndarray[Any, Any]] = {}
    by_source: dict[str, np.ndarray[Any, Any]] = {}
    uses = np.zeros(tokenizer.n_tokens, dtype=np.int64)
    progress.stage(t("tokens.encoding", split=split), unit="B")
    with ShardWriter(folder, tokenizer.n_tokens, settings.shard_tokens) as writer:
        for document, ids, n_bytes in encode_documents(tokenizer, documents):
            name = f"{document.domain}.{document.language}"
            writer.add(ids, slice_number(name), source_number(document.source), n_bytes)
            uses += np.bincount(ids, minlength=tokenizer.n_tokens)
            counts = np.asarray([1, len(ids), n_bytes], dtype=np.int64)
            by_slice[name] = by_slice.get(name, 0) + counts
            by_source[document.source] = by_source.get(document.source, 0) + counts
            progress.advance(n_bytes)
    progress.close()
    np.save(folder / USES, uses)
    return {
        "documents": writer.documents,
        "tokens": writer.tokens,
        "bytes": int(sum(int(counts[2]) for counts in by_slice.values())),
        "shards": writer.shards,
        "slices": {name: _counts(counts) for name, counts in sorted(by_slice.items())},
        "sources": {name: _counts(counts) for name, counts in sorted(by_source.items())},
        "unused_ids": int((uses[_ordinary(tokenizer)] == 0).sum()),
        "rare_ids": int((uses[_ordinary(tokenizer)] < FEW_USES).sum()),
    }


def _ordinary(tokenizer: Tokenizer) -> list[int]:
    special = set(tokenizer.special.values())
    return [number for number in range(tokenizer.n_tokens) if number not in special]


def unused_ids(train: Mapping[str, Any], n_ordinary: int) -> list[Finding]:
    """TOKENIZER/unused-ids where more than 5 % of the ordinary ids never occur in training text."""
    share = train["unused_ids"] / max(1, n_ordinary)
    if share <= UNUSED_SHARE:
        return []
    numbers = {
        "unused": train["unused_ids"],
        "tokens": n_ordinary,
        "share": round(100 * share, 1),
        "rare": train["rare_ids"],
        "few": FEW_USES,
    }
    return [Finding("TOKENIZER/unused-ids", "warn", "tokens", "train", numbers)]


def _pool(folder: Path, val: dict[str, Any], slices: _Numbers) -> dict[str, list[str]]:
    """Pool the small slices of the validation text, in its files and its report; which pool holds which slices."""
    moved = pools({name: counts["bytes"] for name, counts in val["slices"].items()})
    rename(folder, {slices(name): slices(pool) for name, pool in moved.items()})
    merged: dict[str, dict[str, int]] = {}
    members: dict[str, list[str]] = {}
    for name, counts in val["slices"].items():
        pool = moved.get(name, name)
        merged[pool] = {key: merged.get(pool, {}).get(key, 0) + value for key, value in counts.items()}
        if name in moved:
            members.setdefault(pool, []).append(name)
    val["slices"] = dict(sorted(merged.items()))
    return members


def _counts(counts: np.ndarray[Any, Any]) -> dict[str, int]:
    return {"documents": int(counts[0]), "tokens": int(counts[1]), "bytes": int(counts[2])}
