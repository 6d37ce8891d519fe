"""The tokenizer end to end: trained for real, both engines, there and back."""

from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umsicht.findings import UserError
from umsicht.recipe.tokenizer import TokenizerSettings
from umsicht.record.progress import QUIET
from umsicht.tokenizer import Sample, Tokenizer, train
from umsicht.tokenizer.adversarial import ADVERSARIAL, every_byte
from umsicht.tokenizer.roundtrip import bytes_are_exact, missing_bytes, round_trip
from umsicht.tokenizer.special import EOS, IM_END

WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "and",
    "then",
    "runs",
    "through",
    "forests",
    "of",
    "old",
    "words",
    "again",
]


def text_of(number: int) -> str:
    joined = (WORDS[(number * 7 + i * i) % 17] + WORDS[(number + i) % 17] * (i % 2) for i in range(200))
    return " ".join(joined) + f" {number}\n"


def samples() -> list[Sample]:
    english = [Sample(text_of(i), "en", "prose") for i in range(60)]
    german = [Sample("Über den Wäldern liegt Schnee; die Straße führt weiter. " * 20, "de", "prose")]
    return english + german


@pytest.fixture(scope="module", params=["qwen2", "llama-bpe", "gpt-2"])
def trained(request, tmp_path_factory) -> Tokenizer:
    folder = tmp_path_factory.mktemp(request.param)
    train(TokenizerSettings(vocab_size=420, pre_tokenizer=request.param), samples, folder, QUIET)
    return Tokenizer.load(folder)


def test_the_vocabulary_has_exactly_the_size_asked_for(trained):
    assert trained.n_tokens == 420
    assert sorted(trained.special.values()) == list(range(420 - 12, 420))
    assert trained.pre_tokenizer in ("qwen2", "llama-bpe", "gpt-2")


def test_adversarial_texts_come_back(trained):
    assert round_trip(trained) == []
    assert bytes_are_exact(trained, ADVERSARIAL)
    assert missing_bytes(trained) == []


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
@settings(max_examples=150, deadline=None)
def test_any_text_comes_back_and_its_bytes_add_up(trained, text):
    ids = trained.encode(text)
    assert trained.decode(ids) == text
    assert sum(len(trained.token_bytes(number)) for number in ids) == len(text.encode())
    assert trained.encode_array(text).tolist() == ids


def test_every_byte_can_be_written(trained):
    by_byte = {trained.token_bytes(number): number for number in range(256)}
    raw = every_byte()
    assert trained.decode_bytes(by_byte[bytes([value])] for value in raw) == raw


def test_both_engines_give_equal_ids(trained):
    assert trained.assert_equal_ids([*ADVERSARIAL, *(sample.text for sample in samples())]) > 80


def test_literal_special_tokens_stay_text(trained):
    ids = trained.encode(f"a{EOS}b{IM_END}")
    assert not set(ids) & set(trained.special.values())
    assert trained.decode(ids) == f"a{EOS}b{IM_END}"


def test_the_exported_file_is_read_by_tokenizers_with_equal_ids(trained, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    file = tmp_path / "tokenizer.json"
    file.write_bytes(orjson.dumps(trained.definition))
    other = tokenizers.Tokenizer.from_file(str(file))
    for text in ("Über den Wäldern 123", "  def f():\n\treturn 0"):
        assert other.encode(text).ids == trained.encode(text)
        assert other.decode(trained.encode(text)) == text
    assert other.token_to_id(EOS) == trained.eos_id


def test_batches_equal_single_texts(trained):
    texts = [sample.text for sample in samples()]
    assert trained.encode_batch(texts, threads=2) == [trained.encode(text) for text in texts]


def test_a_vocabulary_that_the_text_cannot_fill_is_refused(tmp_path):
    with pytest.raises(UserError, match="50000"):
        train(TokenizerSettings(vocab_size=50_000), samples, tmp_path, QUIET)
    assert not (tmp_path / "tokenizer.json").exists()


def test_no_text_is_refused(tmp_path):
    with pytest.raises(UserError):
        train(TokenizerSettings(), lambda: [Sample("", "en", "prose")], tmp_path, QUIET)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"model": 3}'])
def test_a_broken_file_is_named(tmp_path, content):
    file = tmp_path / "tokenizer.json"
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        Tokenizer.load(file)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match="nowhere"):
        Tokenizer.load(Path(tmp_path / "nowhere"))


@pytest.mark.parametrize("number", [-1, 420])
def test_ids_that_do_not_exist_are_refused(trained, number):
    with pytest.raises(IndexError):
        trained.decode([number])
