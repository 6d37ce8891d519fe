"""The stages for real: text to a tokenizer to shards, and back to the same text."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pytest

from umsicht.findings import UserError
from umsicht.recipe.tokenizer import TokenizerSettings
from umsicht.recipe.tokens import TokensSettings
from umsicht.record.artifact import Store
from umsicht.tokenizer import Tokenizer
from umsicht.tokenizer.stage import TokenizerInputs
from umsicht.tokenizer.stage import build as build_tokenizer
from umsicht.tokens import TokenData
from umsicht.tokens.pooling import pools
from umsicht.tokens.shards import ShardWriter, checked, id_dtype
from umsicht.tokens.stage import TokensInputs
from umsicht.tokens.stage import build as build_tokens


@dataclass(frozen=True)
class Text:
    text: str
    source: str
    domain: str
    language: str


TRAIN = [
    Text(f"Number {i}: " + "a story of words and more words. " * (i % 7 + 1), f"s{i % 2}", "prose", "en")
    for i in range(90)
]
VAL = [Text(f"Held out {i}, ein Satz über Wälder. " * 3, "s1", "prose", "de") for i in range(9)]


def documents(split: str) -> Iterable[Text]:
    return iter(TRAIN if split == "train" else VAL)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def tokenizer_artifact(store):
    inputs = TokenizerInputs(store, "corpus1", lambda: documents("train"), lambda: documents("val"))
    return build_tokenizer(TokenizerSettings(vocab_size=285), inputs)


@pytest.fixture(scope="module")
def tokens_artifact(store, tokenizer_artifact):
    return build_tokens(
        TokensSettings(shard_tokens=1000), TokensInputs(store, tokenizer_artifact, "corpus1", documents)
    )


def test_documents_come_back_word_for_word_in_order(tokens_artifact, tokenizer_artifact):
    tokenizer, data = Tokenizer.load(tokenizer_artifact.path), TokenData.open(tokens_artifact.path)
    for split, given in ((data.train, TRAIN), (data.val, VAL)):
        assert split.n_documents == len(given)
        for number, document in enumerate(given):
            ids = split.document(number)
            assert ids[-1] == tokenizer.eos_id
            assert tokenizer.decode(ids[:-1].tolist()) == document.text
            assert split.document_bytes[number] == len(document.text.encode())
            name = f"{document.domain}.{document.language}" if split.name == "train" else "small.other"
            assert split.slice_of(number) == name
            assert split.source_of(number) == document.source


def test_small_validation_slices_are_pooled_and_listed(tokens_artifact):
    data = TokenData.open(tokens_artifact.path)
    assert data.index["pooled"] == {"small.other": ["prose.de"]}
    assert set(tokens_artifact.report["val"]["slices"]) == {"small.other"}
    assert tokens_artifact.report["val"]["slices"]["small.other"]["documents"] == len(VAL)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({"a.en": 90, "a.de": 10}, {"a.de": "small.other"}),
        ({"a.en": 30, "a.de": 30, "b.en": 10}, {"a.en": "a.other", "a.de": "a.other", "b.en": "small.other"}),
        ({"a.en": 50}, {}),
        ({}, {}),
    ],
)
def test_pools(sizes, expected):
    assert pools(sizes, 50) == expected


def test_the_report_counts_what_is_there(tokens_artifact):
    data, report = TokenData.open(tokens_artifact.path), tokens_artifact.report
    assert report["train"]["tokens"] == data.train.n_tokens == sum(len(array) for array in data.train.arrays)
    assert report["train"]["shards"] == len(data.train.arrays) > 1
    assert report["train"]["bytes"] == sum(len(document.text.encode()) for document in TRAIN)
    assert sum(source["tokens"] for source in report["train"]["sources"].values()) == data.train.n_tokens


def test_an_unchanged_stage_does_no_work(store, tokenizer_artifact, tokens_artifact):
    def nothing(split: str) -> Iterable[Text]:
        raise AssertionError("read again")

    again = build_tokens(
        TokensSettings(shard_tokens=1000, packing="best-fit", seed=4),
        TokensInputs(store, tokenizer_artifact, "corpus1", nothing),
    )
    assert again.path == tokens_artifact.path


def test_files_are_plain_numpy(tokens_artifact):
    tokens = np.load(tokens_artifact.path / "train" / "00000.tokens.npy")
    assert tokens.dtype == np.uint16
    offsets = np.load(tokens_artifact.path / "train" / "00000.documents.npy")
    assert offsets[-1] == len(tokens)


def test_a_sample_is_the_same_each_time_and_covers_every_slice(tokens_artifact):
    data = TokenData.open(tokens_artifact.path)
    first, second = data.train.sample(500, seed=1), data.train.sample(500, seed=1)
    assert np.array_equal(first.starts, second.starts)
    assert 0 < first.document_bytes.sum() <= 750
    assert {first.slice_of(i) for i in range(len(first))} == {"prose.en"}
    assert data.val.sample(1).n_documents == 1


@pytest.mark.parametrize(
    ("n_tokens", "dtype"), [(300, "uint16"), (65_536, "uint16"), (65_537, "uint32"), (200_000, "uint32")]
)
def test_the_dtype_holds_every_id(n_tokens, dtype, tmp_path):
    assert str(id_dtype(n_tokens)) == dtype
    largest = np.asarray([0, n_tokens - 1], dtype=np.int64)
    with ShardWriter(tmp_path / "train", n_tokens, 100) as writer:
        writer.add(largest, 0, 0, 4)
    assert np.load(tmp_path / "train" / "00000.tokens.npy").tolist() == largest.tolist()


@pytest.mark.parametrize("bad", [300, 65_536 + 5, -1])
def test_an_id_that_does_not_fit_is_an_error(bad):
    with pytest.raises(UserError, match=str(max(bad, 7))):
        checked(np.asarray([7, bad]), 300)


def test_a_corpus_without_text_is_refused(store, tokenizer_artifact):
    with pytest.raises(UserError):
        build_tokens(TokensSettings(), TokensInputs(store, tokenizer_artifact, "empty", lambda split: []))


def test_a_language_missing_from_the_sample_is_found(store):
    settings = TokenizerSettings(vocab_size=285, languages=["en", "de"])
    artifact = build_tokenizer(
        settings, TokenizerInputs(store, "corpus2", lambda: documents("train"), lambda: documents("val"))
    )
    found = {finding["id"]: finding for finding in artifact.report["findings"]}
    assert found["TOKENIZER/language-missing"]["location"] == "de"
    assert found["TOKENIZER/language-missing"]["grade"] == "stop"
