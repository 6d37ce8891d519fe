"""The stage `baselines`: held-out excerpts and what xz and the n-gram model make of them; made once per corpus and tokenizer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umsicht.evaluate import heldout
from umsicht.evaluate.baselines import measure
from umsicht.findings import UserError
from umsicht.recipe.evaluate import BaselineSettings
from umsicht.record.artifact import Artifact, Store
from umsicht.record.progress import QUIET, Progress
from umsicht.tokenizer import Tokenizer
from umsicht.words import t

STAGE_VERSION = 1
KIND = "baselines"


@dataclass(frozen=True)
class Inputs:
    """What the stage reads."""

    store: Store
    corpus: Artifact
    tokenizer: Artifact
    name: str = "baselines"


def build(settings: BaselineSettings, inputs: Inputs, *, progress: Progress = QUIET) -> Artifact:
    """Choose the held-out excerpts and measure the baselines. Raises UserError where the corpus has no validation text."""

    from umsicht.corpus import documents  # the extra `corpus`: sampling and export must not need it

    def training() -> Iterable[heldout.HasText]:
        return documents(inputs.corpus, "train")

    def make(folder: Path) -> dict[str, Any]:
        held_out = list(documents(inputs.corpus, "val"))
        excerpts = heldout.choose(held_out, settings.bytes_per_slice)
        if not excerpts:
            raise UserError(
                t("evaluate.no_heldout"),
                where=str(inputs.corpus.path / "val"),
                why=t("evaluate.no_heldout.why"),
                fix=t("evaluate.no_heldout.fix"),
            )
        heldout.save(excerpts, folder)
        baselines = measure(
            excerpts,
            training,
            Tokenizer.load(inputs.tokenizer.path),
            context_bytes=settings.context_bytes,
            ngram_order=settings.ngram_order,
            ngram_tokens=settings.ngram_tokens,
            progress=progress,
        )
        progress.close()
        return {
            "heldout": heldout.digest(excerpts),
            "pooled": heldout.pooled(held_out),
            **baselines.to_dict(),
        }

    return inputs.store.build(
        KIND,
        inputs.name,
        stage_version=STAGE_VERSION,
        settings=settings.plain(),
        inputs={"corpus": inputs.corpus.id, "tokenizer": inputs.tokenizer.id},
        make=make,
    )
