"""The tokenizer stage: text of a corpus in, `tokenizer.json` and its report out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tiktoken
import tokenizers

from umsicht.recipe.tokenizer import TokenizerSettings
from umsicht.record.artifact import Artifact, Store
from umsicht.record.progress import QUIET, Progress
from umsicht.tokenizer.core import Tokenizer
from umsicht.tokenizer.report import report
from umsicht.tokenizer.sample import Sample
from umsicht.tokenizer.train import train

STAGE_VERSION = 1
KIND = "tokenizer"


@dataclass(frozen=True)
class TokenizerInputs:
    """What the stage reads. `samples()` gives the training documents, and must give the same ones each time; `held_out()` gives documents
    that no merge is learned from: the report is about those."""

    store: Store
    corpus_id: str
    samples: Callable[[], Iterable[Sample]]
    held_out: Callable[[], Iterable[Sample]] = tuple
    name: str = "tokenizer"


def build(settings: TokenizerSettings, inputs: TokenizerInputs, *, progress: Progress = QUIET) -> Artifact:
    """Train, check and report; the finished artifact where the same was done before. Raises UserError for too little text."""

    def make(folder: Path) -> dict[str, Any]:
        trained = train(settings, inputs.samples, folder, progress)
        tokenizer = Tokenizer.load(folder)
        said = report(tokenizer, settings, inputs.held_out(), sample=trained["sample"])
        libraries = {"tokenizers": tokenizers.__version__, "tiktoken": tiktoken.__version__}
        return {**trained, **said, "libraries": libraries}

    return inputs.store.build(
        KIND,
        inputs.name,
        stage_version=STAGE_VERSION,
        settings=settings.plain(),
        inputs={"corpus": inputs.corpus_id},
        make=make,
    )
