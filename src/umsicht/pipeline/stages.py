"""The data half of the walk: corpus → tokenizer → tokens → baselines, each an artifact that is made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from umsicht.corpus import Document, documents
from umsicht.corpus.stage import CorpusInputs
from umsicht.corpus.stage import build as build_corpus
from umsicht.evaluate.stage import Inputs as BaselineInputs
from umsicht.evaluate.stage import build as build_baselines
from umsicht.findings import Finding
from umsicht.pipeline.walk import Walk
from umsicht.record import Artifact
from umsicht.tokenizer.sample import Sample
from umsicht.tokenizer.stage import TokenizerInputs
from umsicht.tokenizer.stage import build as build_tokenizer
from umsicht.tokens.stage import TokensInputs
from umsicht.tokens.stage import build as build_tokens


def reported(artifact: Artifact) -> list[Finding]:
    """The findings that a stage wrote into its report."""
    return [Finding.from_dict(plain) for plain in artifact.report.get("findings", ())]


def corpus(walk: Walk) -> Artifact:
    """Read, clean, set validation aside, deduplicate, count."""
    inputs = CorpusInputs(walk.project.store, root=walk.root, name=walk.recipe.name)
    artifact = build_corpus(walk.recipe.corpus, inputs, progress=walk.progress)
    walk.gate("corpus", reported(artifact))
    return artifact


def tokenizer(walk: Walk, made: Artifact) -> Artifact:
    """Learn the vocabulary from training documents; report on those set aside."""

    def samples(split: Literal["train", "val"]) -> Callable[[], Iterator[Sample]]:
        def read() -> Iterator[Sample]:
            return (Sample(one.text, one.language, one.domain) for one in documents(made, split))

        return read

    inputs = TokenizerInputs(
        walk.project.store, made.id, samples("train"), samples("val"), name=walk.recipe.name
    )
    artifact = build_tokenizer(walk.recipe.tokenizer, inputs, progress=walk.progress)
    walk.gate("tokenizer", reported(artifact))
    return artifact


def tokens(walk: Walk, made: Artifact, vocabulary: Artifact) -> Artifact:
    """Documents as ids on disk."""

    def read(split: str) -> Iterator[Document]:
        return documents(made, "train" if split == "train" else "val")

    inputs = TokensInputs(walk.project.store, vocabulary, made.id, read, name=walk.recipe.name)
    artifact = build_tokens(walk.recipe.tokens, inputs, progress=walk.progress)
    walk.gate("tokens", reported(artifact))
    return artifact


def baselines(walk: Walk, made: Artifact, vocabulary: Artifact) -> Artifact:
    """What xz and a counted n-gram model make of the validation text."""
    inputs = BaselineInputs(walk.project.store, made, vocabulary, name=walk.recipe.name)
    return build_baselines(walk.recipe.evaluate.baselines, inputs, progress=walk.progress)
