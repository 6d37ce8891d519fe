"""The base pipelines of the fault bench, made of the product's own stages on text that every Python installation carries."""

from __future__ import annotations

import hashlib
import random
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from umsicht.guard import PreflightInputs
from umsicht.model import ModelConfig, Transformer, build, derive
from umsicht.recipe import Recipe
from umsicht.recipe.guard import GuardSettings
from umsicht.recipe.model import DropoutSettings, ModelSettings
from umsicht.recipe.tokenizer import TokenizerSettings
from umsicht.recipe.tokens import MixSettings, TokensSettings
from umsicht.recipe.train import BudgetSettings, OptimizerSettings, TrainSettings
from umsicht.record import Store
from umsicht.record.artifact import Artifact
from umsicht.tokenizer import Tokenizer
from umsicht.tokenizer.stage import TokenizerInputs
from umsicht.tokenizer.stage import build as build_tokenizer
from umsicht.tokens import PackedSource, TokenData
from umsicht.tokens.stage import TokensInputs
from umsicht.tokens.stage import build as build_tokens

_NOUNS = [
    "Garten",
    "Haus",
    "Fluss",
    "Brücke",
    "Zeit",
    "Weg",
    "Stadt",
    "Wald",
    "Tür",
    "Lampe",
    "Woche",
    "Straße",
    "Übung",
    "Größe",
    "Fenster",
    "Schiff",
    "Berg",
    "Insel",
    "Kind",
    "Buch",
]
_VERBS = [
    "zeigt",
    "trägt",
    "sucht",
    "baut",
    "öffnet",
    "findet",
    "hört",
    "liest",
    "prüft",
    "ändert",
    "zählt",
    "misst",
]


@dataclass(frozen=True)
class Text:
    """A document as the corpus hands it on."""

    text: str
    source: str
    domain: str
    language: str

    @property
    def slice(self) -> str:
        """`domain.language`."""
        return f"{self.domain}.{self.language}"

    @property
    def id(self) -> str:
        """Hash of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:32]


def _code(count: int) -> Iterator[Text]:
    """Functions and classes of the standard library."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    made = 0
    for path in sorted(folder.glob("*.py")):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        for part in text.split("\ndef ")[1:]:
            if 200 < len(part) < 3000:
                yield Text("def " + part.strip() + "\n", "stdlib", "code", "en")
                made += 1
                if made >= count:
                    return


def _prose(count: int) -> Iterator[Text]:
    """Doc strings and comments of the standard library, as prose."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    made = 0
    for path in sorted(folder.glob("*.py"), reverse=True):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        for part in text.split('"""')[1::2]:
            plain = " ".join(part.split())
            if 120 < len(plain) < 3000:
                yield Text(plain, "docs", "prose", "en")
                made += 1
                if made >= count:
                    return


def _german(count: int) -> Iterator[Text]:
    """German sentences by rule: umlauts, sharp s, capitals, digits."""
    rng = random.Random(5)
    for number in range(count):
        lines = []
        for _ in range(rng.randint(2, 9)):
            first, second = rng.choice(_NOUNS), rng.choice(_NOUNS)
            lines.append(
                f"Der {first} {rng.choice(_VERBS)} am {rng.randint(1, 28)}. Mai {rng.randint(1700, 2025)} nach {second}s {rng.choice(_NOUNS)}, {rng.choice('abcdefgh')}) für {rng.randint(2, 99)} Mark."
            )
        yield Text(f"{number + 1}. " + "\n".join(lines), "erzeugt", "prose", "de")


def _unlike(texts: list[Text]) -> Iterator[Text]:
    """Texts that share hardly any run of eight words with those before: what a corpus stage leaves."""
    seen: set[tuple[str, ...]] = set()
    for one in texts:
        words = one.text.split()
        runs = {tuple(words[i : i + 8]) for i in range(max(1, len(words) - 7))}
        if len(runs & seen) > 0.2 * len(runs):
            continue
        seen |= runs
        yield one


@cache
def corpus(scale: int = 1) -> tuple[tuple[Text, ...], tuple[Text, ...]]:
    """(training, validation) documents: split by document, no text twice."""
    every = [*_code(160 * scale), *_prose(260 * scale), *_german(200 * scale)]
    unique = list(_unlike(every))
    val = tuple(text for text in unique if int(text.id[:4], 16) % 10 == 0)
    train = tuple(text for text in unique if int(text.id[:4], 16) % 10)
    return train, val


@dataclass
class Pipeline:
    """Everything a run is made of, each part replaceable by an injector."""

    recipe: Recipe
    folder: Path
    train: list[Text]
    val: list[Text]
    raw: list[Text] = field(default_factory=list)
    tokenizer: Any = None
    tokens: Path | None = None
    config: ModelConfig | None = None
    make_model: Callable[[], nn.Module] | None = None
    make_source: Callable[[int | None], Any] | None = None
    benchmarks: dict[str, list[str]] = field(default_factory=dict)
    objective: Any = None
    declared: Any = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def store(self) -> Store:
        """Artifacts of this case."""
        return Store(self.folder / "artifacts")

    def documents(self, split: str) -> list[Text]:
        """What the corpus stage hands on."""
        return self.train if split == "train" else self.val

    def make_tokens(self) -> None:
        """Tokenizer and token shards, by the product's stages."""
        from umsicht.record import content_id

        corpus_id = content_id([[text.text for text in self.train], [text.text for text in self.val]])
        made = build_tokenizer(
            self.recipe.tokenizer,
            TokenizerInputs(self.store, corpus_id, lambda: self.train, lambda: self.val),
        )
        self.tokenizer = Tokenizer.load(made.path)
        self.tokens = self._shards(made, corpus_id).path

    def _shards(self, tokenizer: Artifact, corpus_id: str) -> Artifact:
        return build_tokens(
            self.recipe.tokens, TokensInputs(self.store, tokenizer, corpus_id, self.documents)
        )

    def make_run(self) -> None:
        """Model and batches."""
        settings = self.recipe.model
        config = derive(settings, self.tokenizer.n_tokens, seq_len=settings.seq_len)
        self.config = config
        seed = self.recipe.seed

        def model() -> Transformer:
            return build(config, seed)

        def source(steps: int | None) -> PackedSource:
            assert self.tokens is not None
            data = TokenData.open(self.tokens)
            return PackedSource(
                data.train,
                seq_len=settings.seq_len,
                batch_tokens=self.recipe.train.global_batch_tokens,
                eos_id=data.eos_id,
                seed=self.recipe.tokens.seed,
                packing=self.recipe.tokens.packing,
                mix=self.recipe.tokens.mix,
                total_steps=steps,
            )

        self.make_model = self.make_model or model
        self.make_source = self.make_source or source

    def inputs(self) -> PreflightInputs:
        """What the preflight is given."""
        assert self.tokens is not None and self.make_model is not None and self.make_source is not None
        return PreflightInputs(
            recipe=self.recipe,
            tokenizer=self.tokenizer,
            tokens_path=self.tokens,
            source=self.make_source,
            model=self.make_model,
            config=self.config,
            planned_steps=self.options.get("planned_steps", 400),
            documents=self.documents,
            raw_texts=(lambda: [(text.slice, text.text) for text in self.raw]) if self.raw else None,
            benchmarks=self.benchmarks,
            root=self.folder,
            objective=self.objective,
            declared=self.declared,
            start=self.options.get("start"),
        )

    def start_at(self, weights: Path) -> None:
        """Continue from trained weights, as a recipe's `train.start_from` does."""
        from umsicht.train.warm import start_from

        train = self.recipe.train.model_copy(update={"start_from": str(weights)})
        self.recipe = self.recipe.model_copy(update={"train": train})
        self.options["start"] = weights
        self.make_model = lambda: start_from(weights, self.config)


def recipe(**changes: Any) -> Recipe:
    """A small recipe: 2 layers of width 32, rows of 32 tokens, 8 rows a step."""
    base = Recipe(
        name="fault-bench",
        tokenizer=TokenizerSettings(vocab_size=512, sample_bytes=400_000, reserved=2),
        tokens=TokensSettings(),
        model=ModelSettings(d_model=32, n_layers=2, n_heads=2, head_dim=16, d_ff=64, seq_len=32),
        train=TrainSettings(
            budget=BudgetSettings(steps=400),
            global_batch_tokens=256,
            precision="float32",
            threads=1,
            optimizer=OptimizerSettings(),
            compile="off",
        ),
        check=GuardSettings(stability_steps=30),
    )
    return base.model_copy(update=changes)


def byte_level(**changes: Any) -> Recipe:
    """Packed byte-level pretraining: 256 bytes and the special tokens, no merges worth the name."""
    return recipe(tokenizer=TokenizerSettings(vocab_size=272, sample_bytes=100_000, reserved=2), **changes)


def with_dropout(base: Recipe) -> Recipe:
    """The same with dropout everywhere."""
    return base.model_copy(
        update={
            "model": base.model.model_copy(
                update={"dropout": DropoutSettings(embedding=0.1, attention=0.1, residual=0.1)}
            )
        }
    )


def best_fit(base: Recipe) -> Recipe:
    """Rows that keep documents whole and are padded."""
    return base.model_copy(update={"tokens": base.tokens.model_copy(update={"packing": "best-fit"})})


def mixed(base: Recipe, **shares: float) -> Recipe:
    """A declared mix of sources."""
    return base.model_copy(
        update={"tokens": base.tokens.model_copy(update={"mix": MixSettings(by="source", shares=shares)})}
    )


def begin(settings: Recipe, folder: Path, scale: int = 1) -> Pipeline:
    """A pipeline whose documents are there and nothing else yet."""
    train, val = corpus(scale)
    return Pipeline(settings, folder, list(train), list(val))


def single_thread() -> None:
    """One thread: the bench compares to the bit, and runs cases side by side."""
    torch.set_num_threads(1)


def as_text(one: Text, text: str) -> Text:
    """The same document with another text."""
    return replace(one, text=text)
