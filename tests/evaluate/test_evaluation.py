"""Scores of a real transformer: exact where they must be, refused where they cannot be compared."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from umsicht.evaluate import baselines, heldout
from umsicht.evaluate.evaluation import Evaluation, evaluate_model, load_all
from umsicht.evaluate.protocol import Protocol
from umsicht.findings import UserError
from umsicht.model import Transformer
from umsicht.record.artifact import Artifact, Store
from umsicht.record.run import Run
from umsicht.score import document_nats, of_logits, of_transformer
from umsicht.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def artifact(texts: list, tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    excerpts = heldout.choose(texts[::4], 20_000)

    def make(folder: Path) -> dict:
        heldout.save(excerpts, folder)
        measured = baselines.measure(
            excerpts,
            lambda: [d for i, d in enumerate(texts) if i % 4],
            tokenizer,
            context_bytes=1 << 20,
            ngram_order=5,
            ngram_tokens=200_000,
        )
        return {"heldout": heldout.digest(excerpts), **measured.to_dict()}

    return Store(tmp_path_factory.mktemp("artifacts")).build(
        "baselines", "b", stage_version=1, settings={}, inputs={}, make=make
    )


def reference_nats(model: Transformer, ids: np.ndarray, prefix: int) -> np.ndarray:
    """Whole document at once, plain softmax in float64."""
    inputs = torch.tensor([[prefix, *ids[:-1].tolist()]])
    with torch.no_grad():
        logits = model(inputs)[0].double()
    return -torch.log_softmax(logits, -1).gather(1, torch.tensor(ids)[:, None])[:, 0].numpy()


def test_one_window_equals_the_plain_sum(model: Transformer) -> None:
    model.eval()
    rng = np.random.default_rng(0)
    documents = [rng.integers(0, 500, n) for n in (1, 17, 40, 40, 64, 2)]
    scored = document_nats(of_transformer(model), documents, prefix=3, window=64, stride=32)
    for ids, nats in zip(documents, scored, strict=True):
        assert np.allclose(nats, reference_nats(model, ids, 3), atol=1e-4)


def test_windows_score_every_token_once_with_enough_context(model: Transformer) -> None:
    model.eval()
    ids = np.random.default_rng(1).integers(0, 500, 150)
    (scored,) = document_nats(of_transformer(model), [ids], prefix=3, window=64, stride=16)
    assert np.isfinite(scored).all()
    assert np.allclose(scored[:64], reference_nats(model, ids[:64], 3), atol=1e-4)
    # target 64..79 is scored by the window that starts 16 later
    later = reference_nats(model, ids[16:80], int(ids[15]))
    assert np.allclose(scored[64:80], later[48:], atol=1e-4)


def test_logits_only_models_score_the_same(model: Transformer) -> None:
    model.eval()
    documents = [np.arange(30), np.arange(50, 120)]
    own = document_nats(of_transformer(model), documents, prefix=0, window=64, stride=32)
    foreign = document_nats(of_logits(model), documents, prefix=0, window=64, stride=32)
    for a, b in zip(own, foreign, strict=True):
        assert np.allclose(a, b, atol=1e-4)


def test_an_untrained_model_is_worse_than_xz_and_says_so(
    model: Transformer, tokenizer: Tokenizer, artifact: Artifact
) -> None:
    model.train()
    result = evaluate_model(model, tokenizer, artifact, window=64, step=1)
    assert model.training
    ids = {finding.id for finding in result.findings}
    assert ids == {"EVAL-VALIDITY/worse-than-xz"}
    assert result.total.loss == pytest.approx(math.log(tokenizer.n_tokens), abs=1.0)
    excerpts = heldout.load(artifact.path)
    assert result.total.bytes == sum(len(e.data) for e in excerpts)
    assert result.total.bpb == pytest.approx(
        sum(d.nats for d in result.documents) / math.log(2) / result.total.bytes
    )
    for name, figures in result.baselines.items():
        assert 0 < figures["xz_context"] < figures["xz"] < 4, name
        assert 0 < figures["ngram5"] < 4, name


def test_nan_weights_stop(model: Transformer, tokenizer: Tokenizer, artifact: Artifact) -> None:
    with torch.no_grad():
        next(model.parameters())[5, 0] = float("nan")
        for parameter in model.parameters():
            parameter[..., 0] = float("nan")
    findings = evaluate_model(model, tokenizer, artifact, window=64).findings
    assert [(f.id, f.grade) for f in findings] == [("EVAL-VALIDITY/nonfinite", "stop")]


def test_dropout_in_evaluation_is_seen(model: Transformer, tokenizer: Tokenizer, artifact: Artifact) -> None:
    def noisy(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        model.train()
        return of_transformer(model)(inputs, targets)

    findings = evaluate_model(model, tokenizer, artifact, window=64, nats_of=noisy).findings
    assert "EVAL-VALIDITY/not-repeatable" in {f.id for f in findings}


def test_a_leak_looks_too_good(model: Transformer, tokenizer: Tokenizer, artifact: Artifact) -> None:
    def oracle(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.where(targets >= 0, 0.05, 0.0)

    findings = evaluate_model(model, tokenizer, artifact, window=64, nats_of=oracle).findings
    assert {f.id for f in findings} == {"EVAL-VALIDITY/too-good"}


def test_the_record_reads_back(
    model: Transformer, tokenizer: Tokenizer, artifact: Artifact, tmp_path: Path
) -> None:
    run = Run.create(tmp_path / "run", {"name": "r"})
    result = evaluate_model(model, tokenizer, artifact, window=64, step=7, tokens=9)
    result.save(run)
    (back,) = load_all(run)
    assert back == result
    assert back.beats("xz") == ()
    assert isinstance(back, Evaluation)


@pytest.mark.parametrize(
    "change", [{"window": 32}, {"stride": 8}, {"heldout": "other"}, {"dtype": "bfloat16"}]
)
def test_unequal_protocols_refuse_comparison(change: dict) -> None:
    protocol = Protocol("digest", 0, 64, 32)
    protocol.require_equal(replace(protocol, prefix_token=5))
    with pytest.raises(UserError) as refused:
        protocol.require_equal(replace(protocol, **change))
    assert next(iter(change)) in refused.value.what
    with pytest.raises(UserError):
        protocol.require_equal(replace(protocol, prefix_token=5), across_tokenizers=False)


def test_bits_per_byte_count_raw_bytes_not_tokens(tokenizer: Tokenizer) -> None:
    text = "Größe ﬁ ① 😀 e\u0301 \x00\tend"
    excerpt = heldout.Excerpt("0" * 32, "a.b", text, True)
    (ids,) = baselines.encode_excerpts([excerpt], tokenizer)
    assert ids[-1] == tokenizer.eos_id
    assert len(excerpt.data) == len(text.encode())
    assert tokenizer.decode_bytes(ids[:-1].tolist()) == excerpt.data
