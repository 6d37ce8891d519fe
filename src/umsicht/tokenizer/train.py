"""Learning merges: a stratified sample, byte-level BPE, and a `tokenizer.json` that any other tool reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from umsicht.findings.errors import UserError
from umsicht.recipe.tokenizer import TokenizerSettings
from umsicht.record.files import atomic_write
from umsicht.record.progress import Progress
from umsicht.tokenizer import pretokenize
from umsicht.tokenizer.core import FILE_NAME, Tokenizer
from umsicht.tokenizer.sample import Sample, plan_sample
from umsicht.tokenizer.special import special_names
from umsicht.words import t

Samples = Callable[[], Iterable[Sample]]
N_BYTES = 256


def train(settings: TokenizerSettings, samples: Samples, folder: Path, progress: Progress) -> dict[str, Any]:
    """Train on a stratified sample of `samples()` (read twice) and write `tokenizer.json` into `folder`.

    Returns the report of the sample and the vocabulary. Raises UserError where there is no text, or too little of it for the vocabulary.
    """
    plan = plan_sample(settings, samples())
    if not plan.taken_bytes:
        raise UserError(
            t("tokenizer.no_text"), why=t("tokenizer.no_text_why"), fix=t("tokenizer.no_text_fix")
        )
    progress.stage(t("tokenizer.training"), total=plan.taken_bytes, unit="B")
    definition = learn(settings, _counted(plan.choose(samples()), progress))
    progress.close()
    require_full(settings, definition)
    tokenizer = Tokenizer(definition)
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write(folder / FILE_NAME, orjson.dumps(definition, option=orjson.OPT_INDENT_2))
    return {
        "n_tokens": tokenizer.n_tokens,
        "merges": len(definition["model"]["merges"]),
        "special": tokenizer.special,
        "pre_tokenizer": settings.pre_tokenizer,
        "digest": tokenizer.digest,
        "sample": plan.to_dict(),
    }


def learn(settings: TokenizerSettings, texts: Iterable[str]) -> dict[str, Any]:
    """Byte-level BPE of exactly `settings.vocab_size` ids where the text supports that many; the parsed `tokenizer.json`."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
    from tokenizers import Tokenizer as HuggingFaceTokenizer

    engine = HuggingFaceTokenizer(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pretokenize.PATTERNS[settings.pre_tokenizer]), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    engine.decoder = decoders.ByteLevel()
    names = special_names(settings.reserved)
    trainer = trainers.BpeTrainer(
        vocab_size=settings.vocab_size - len(names),
        min_frequency=settings.min_frequency,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[],
        show_progress=False,
    )
    engine.train_from_iterator(texts, trainer)
    learned: dict[str, Any] = orjson.loads(engine.to_str())
    return with_special(_bytes_first(learned), names)


def _bytes_first(learned: dict[str, Any]) -> dict[str, Any]:
    """Give each byte its own value as id; merges keep theirs (they follow the 256 bytes already)."""
    vocabulary = {
        token: pretokenize.char_to_byte()[token] if number < N_BYTES else number
        for token, number in learned["model"]["vocab"].items()
    }
    learned["model"]["vocab"] = dict(sorted(vocabulary.items(), key=lambda item: item[1]))
    return learned


def with_special(definition: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Put the special tokens after the last merge."""
    first = len(definition["model"]["vocab"])
    definition["added_tokens"] = [
        {
            "id": first + offset,
            "content": name,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for offset, name in enumerate(names)
    ]
    return definition


def require_full(settings: TokenizerSettings, definition: dict[str, Any]) -> None:
    """Raises UserError where the text gave fewer ids than were asked for."""
    reached = len(definition["model"]["vocab"]) + len(definition["added_tokens"])
    if reached < settings.vocab_size:
        raise UserError(
            t("tokenizer.vocabulary_unfilled", asked=settings.vocab_size, reached=reached),
            where="tokenizer.vocab_size",
            why=t("tokenizer.vocabulary_unfilled_why"),
            fix=t("tokenizer.vocabulary_unfilled_fix", reached=reached),
        )


def _counted(texts: Iterable[str], progress: Progress) -> Iterator[str]:
    for text in texts:
        progress.advance(len(text))
        yield text
