"""Sampling, sizes, parallel costs, findings: mistakes are planted and must be named."""

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umsicht.findings import UserError
from umsicht.recipe.tokenizer import TokenizerSettings
from umsicht.record.progress import QUIET
from umsicht.tokenizer import Sample, Tokenizer, parallel, train
from umsicht.tokenizer.fertility import count_words, measure
from umsicht.tokenizer.report import compare, report
from umsicht.tokenizer.sample import fill_quotas, plan_sample
from umsicht.tokenizer.sizes import compare_sizes, recommend, shortened
from umsicht.tokenizer.train import learn
from umsicht.tokenizer.vocabulary import count_uses, inspect, is_junk, overlap, token_lengths

BUILT_IN = parallel.built_in()


def text_in(language: str, times: int) -> list[Sample]:
    return [Sample(sentence * 3, language, "prose") for sentence in BUILT_IN[language]] * times


def corpus() -> list[Sample]:
    return text_in("en", 20) + text_in("de", 20) + text_in("ru", 20)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Tokenizer, dict, TokenizerSettings]:
    folder = tmp_path_factory.mktemp("report")
    settings_ = TokenizerSettings(vocab_size=420, languages=["en", "de", "ru"])
    said = train(settings_, corpus, folder, QUIET)
    return Tokenizer.load(folder), said, settings_


@given(
    sizes=st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.integers(0, 10_000), min_size=1),
    budget=st.floats(1, 50_000),
    seed=st.integers(0, 100),
)
@settings(max_examples=150, deadline=None)
def test_quotas_never_exceed_what_is_there_and_use_the_whole_budget(sizes, budget, seed):
    rng = np.random.default_rng(seed)
    weights = {name: float(rng.uniform(0.01, 1)) for name in sizes}
    quotas = fill_quotas(sizes, weights, budget)
    assert all(0 <= quotas[name] <= sizes[name] + 1e-6 for name in sizes)
    assert sum(quotas.values()) == pytest.approx(min(budget, sum(sizes.values())), rel=1e-9, abs=1e-6)


def test_a_small_language_gets_more_than_its_part_of_the_corpus():
    documents = text_in("en", 200) + text_in("de", 4)
    even = plan_sample(TokenizerSettings(temperature=0.0, sample_bytes=20_000), documents)
    as_is = plan_sample(TokenizerSettings(temperature=1.0, sample_bytes=20_000), documents)
    assert even.to_dict()["slices"]["prose.de"]["share"] > 3 * as_is.to_dict()["slices"]["prose.de"]["share"]


def test_the_sample_keeps_to_its_quotas_and_is_the_same_each_time():
    documents = text_in("en", 100) + text_in("de", 50)
    plan = plan_sample(TokenizerSettings(sample_bytes=30_000), documents)
    first, second = list(plan.choose(documents)), list(plan.choose(documents))
    assert first == second
    assert sum(len(text.encode()) for text in first) == pytest.approx(30_000, rel=0.15)


def test_one_long_document_does_not_fill_the_quota_several_times():
    documents = [Sample("word " * 100_000, "en", "book"), *text_in("de", 20)]
    taken = sum(
        len(text) for text in plan_sample(TokenizerSettings(sample_bytes=10_000), documents).choose(documents)
    )
    assert taken <= 12_000


def test_explicit_shares_are_followed():
    settings_ = TokenizerSettings(shares={"de": 3, "en": 1}, sample_bytes=8_000)
    slices = plan_sample(settings_, corpus()).to_dict()["slices"]
    assert slices["prose.de"]["share"] == pytest.approx(0.75)
    assert slices["prose.ru"]["taken_bytes"] == 0


def test_the_planted_mistake_of_a_missing_language_is_named(tmp_path):
    settings_ = TokenizerSettings(vocab_size=420, languages=["en", "de", "ru"], shares={"en": 1, "de": 1})
    said = train(settings_, corpus, tmp_path, QUIET)
    found = {
        f["id"]: f
        for f in report(Tokenizer.load(tmp_path), settings_, corpus(), sample=said["sample"])["findings"]
    }
    assert found["TOKENIZER/language-missing"]["grade"] == "stop"
    assert found["TOKENIZER/language-missing"]["location"] == "ru"
    assert found["TOKENIZER/language-expensive"]["numbers"]["language"] == "ru"


def test_a_healthy_tokenizer_gives_no_finding(trained):
    tokenizer, said, settings_ = trained
    assert report(tokenizer, settings_, corpus(), sample=said["sample"])["findings"] == []


def test_bytes_per_token_add_up_to_the_bytes_of_the_text(trained):
    tokenizer = trained[0]
    lengths = token_lengths(tokenizer)
    for sample in corpus():
        assert lengths[tokenizer.encode(sample.text)].sum() == len(sample.text.encode())
    assert lengths[tokenizer.eos_id] == 0


def test_counted_uses_are_the_tokens_of_the_text(trained):
    tokenizer = trained[0]
    texts = [sample.text for sample in corpus()[:50]]
    counts = count_uses(tokenizer, texts)
    assert counts.sum() == sum(len(tokenizer.encode(text)) for text in texts)
    looked = inspect(tokenizer, counts)
    assert looked.unused == int((counts[: tokenizer.n_tokens - len(tokenizer.special)] == 0).sum())


@pytest.mark.parametrize(
    "junk", [b"----------------", b"=" * 9, b"\\\\//\\\\//**", b"deadbeefcafe01", b"x" * 40]
)
def test_junk_is_seen(junk):
    assert is_junk(junk)


@pytest.mark.parametrize(
    "fine", [b" " * 40, b" international", "Straße".encode(), b"...", b"\n\n\n\n\n\n\n\n\n", b"\xff"]
)
def test_ordinary_tokens_are_not_junk(fine):
    assert not is_junk(fine)


def test_a_vocabulary_overlaps_itself_wholly(trained):
    assert overlap(trained[0], trained[0])["share_of_first"] == 1.0


@pytest.mark.parametrize("size", [300, 350, 400])
def test_a_smaller_size_is_the_beginning_of_a_larger_one(size):
    texts = [sample.text for sample in corpus()]
    large = learn(TokenizerSettings(vocab_size=420), iter(texts))
    small = learn(TokenizerSettings(vocab_size=size), iter(texts))
    cut = shortened(large, size, 8)
    assert cut["model"]["merges"] == small["model"]["merges"]
    assert cut["model"]["vocab"] == small["model"]["vocab"]
    assert cut["added_tokens"] == small["added_tokens"]


def test_sizes_are_compared_and_one_recommended():
    figures = compare_sizes(
        TokenizerSettings(), corpus, corpus()[::7], [300, 350, 420], d_model=64, body_parameters=1_000_000
    )
    rates = [figure.fertility.bytes_per_token for figure in figures]
    assert rates == sorted(rates)
    assert figures[0].embedding_share < figures[-1].embedding_share
    assert recommend(figures) in (300, 350, 420)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("one two, three!", 3),
        ("don't stop – now", 3),
        ("你好世界", 4),
        ("日本語 text", 4),
        ("ภาษา", 4),
        ("... --- ...", 0),
        ("a\u0301b c", 2),
    ],
)
def test_words_are_counted(text, words):
    assert count_words(text) == words


def test_fertility_is_by_slice(trained):
    found = measure(trained[0], corpus())
    assert set(found) == {"prose.en", "prose.de", "prose.ru"}
    assert all(figure.tokens_per_word > 1 for figure in found.values())


def test_parallel_sentences_are_complete():
    assert len(BUILT_IN) >= 25
    assert all(len(sentences) == 6 and all(sentences) for sentences in BUILT_IN.values())


def test_a_users_parallel_text_is_read(tmp_path):
    file = tmp_path / "parallel.jsonl"
    file.write_text(
        '{"language":"a","id":1,"text":"one"}\n{"language":"b","id":1,"text":"uno"}\n{"language":"a","id":2,"text":"two"}\n'
    )
    assert parallel.read(file) == {"a": ("one",), "b": ("uno",)}


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[1]", "nonsense", '{"language":"a","id":1,"text":"x"}\n{"language":"b","id":2,"text":"x"}'],
)
def test_bad_parallel_text_is_refused(tmp_path, content):
    file = tmp_path / "parallel.jsonl"
    file.write_text(content)
    with pytest.raises(UserError):
        parallel.read(file)


def test_a_comparison_holds_this_tokenizer(trained):
    compared = compare(trained[0], corpus())
    assert compared["this"]["n_tokens"] == 420
    assert compared["this"]["slices"]["prose.de"]["bytes_per_token"] > 1


def test_real_languages_cost_what_they_should(test_data, tmp_path):
    """Trained on English and German news sentences only, Hindi must stand out; on all languages evenly it must not."""
    rows: dict[str, list[str]] = {}
    wanted = ("en", "de", "hi", "ru")
    for language in wanted:
        packed = gzip.decompress((test_data / "ud-pud" / f"{language}.tsv.gz").read_bytes()).decode()
        rows[language] = [line.split("\t", 1)[1] for line in packed.splitlines()]

    def documents(languages):
        return lambda: [
            Sample(text, language, "news") for language in languages for text in rows[language][:600]
        ]

    ratios = {}
    for name, languages in (("two", wanted[:2]), ("all", wanted)):
        train(
            TokenizerSettings(vocab_size=4096, temperature=0.0), documents(languages), tmp_path / name, QUIET
        )
        tokenizer = Tokenizer.load(tmp_path / name)
        costs = parallel.costs(tokenizer, {language: rows[language][600:] for language in wanted})
        ratios[name] = {cost.language: cost.ratio for cost in costs}
    assert ratios["two"]["hi"] > 4
    assert ratios["all"]["hi"] < 1.6
