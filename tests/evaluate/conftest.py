"""Small real things: a trained tokenizer, a transformer, documents of three slices from the standard library."""

from __future__ import annotations

import dataclasses
import hashlib
import pydoc_data.topics
from pathlib import Path

import pytest
import torch

from umsicht.model import ModelConfig, Transformer, build
from umsicht.recipe.tokenizer import TokenizerSettings
from umsicht.record.progress import QUIET
from umsicht.tokenizer import Tokenizer
from umsicht.tokenizer.sample import Sample
from umsicht.tokenizer.train import train


@dataclasses.dataclass(frozen=True)
class Text:
    """A document as the corpus gives it."""

    id: str
    text: str
    slice: str


def document(text: str, slice_name: str) -> Text:
    return Text(hashlib.sha256(text.encode()).hexdigest()[:32], text, slice_name)


@pytest.fixture(scope="session")
def texts() -> list[Text]:
    reference = [
        document(text, "reference.en") for text in pydoc_data.topics.topics.values() if len(text) > 200
    ]
    code = [
        document(path.read_text(encoding="utf-8"), "code.code")
        for path in sorted(Path(dataclasses.__file__).parent.glob("[a-f]*.py"))
        if path.stat().st_size < 60_000
    ]
    return reference[:60] + code[:25]


@pytest.fixture(scope="session")
def tokenizer(texts: list[Text], tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("tokenizer")
    settings = TokenizerSettings(vocab_size=600)
    train(settings, lambda: (Sample(d.text, "en", d.slice.partition(".")[0]) for d in texts), folder, QUIET)
    return Tokenizer.load(folder)


@pytest.fixture
def model(tokenizer: Tokenizer) -> Transformer:
    torch.manual_seed(0)
    config = ModelConfig(
        family="qwen3",
        n_tokens=tokenizer.n_tokens,
        vocab_size=-(-tokenizer.n_tokens // 128) * 128,
        d_model=32,
        n_layers=2,
        n_heads=2,
        n_kv_heads=1,
        head_dim=16,
        d_ff=64,
        seq_len=64,
        dropout_residual=0.1,
    )
    made = build(config, seed=0)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return made
