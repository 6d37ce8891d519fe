"""The decoder: causal, isolated by documents, the same with and without a cache."""

from __future__ import annotations

import math

import pytest
import torch

from umsicht.model import KVCache, build

from .small import small_config

CLOSE = {"atol": 2e-5, "rtol": 1e-5}


def test_a_later_token_never_changes_an_earlier_logit(family, make, ids):
    model = make(family)
    changed = ids.clone()
    changed[:, 15:] = (changed[:, 15:] + 7) % 120
    before, after = model(ids), model(changed)
    assert torch.equal(before[:, :15], after[:, :15])
    assert (before[:, 15:] - after[:, 15:]).abs().max() > 0.01


def test_packed_documents_score_as_they_do_alone(family, make, ids):
    model = make(family)
    document_ids = torch.zeros_like(ids, dtype=torch.int32)
    document_ids[:, 9:] = 1
    packed = model(ids, document_ids=document_ids)
    torch.testing.assert_close(packed[:, 9:], model(ids[:, 9:]), **CLOSE)
    torch.testing.assert_close(packed[:, :9], model(ids[:, :9]), **CLOSE)
    assert (packed[:, 9:] - model(ids)[:, 9:]).abs().max() > 0.01


def test_one_document_in_a_row_is_the_plain_causal_case(family, make, ids):
    model = make(family)
    torch.testing.assert_close(model(ids, document_ids=torch.zeros_like(ids)), model(ids), **CLOSE)


@pytest.mark.parametrize("cuts", [[24], [1] * 24, [10, 1, 5, 8]])
def test_cache_gives_the_logits_of_a_full_read(family, make, ids, cuts):
    model = make(family)
    cache = KVCache(model.config, 3, 24)
    with torch.no_grad():
        parts = [model(part, cache=cache) for part in ids.split(cuts, dim=1)]
        torch.testing.assert_close(torch.cat(parts, dim=1), model(ids), **CLOSE)


def test_left_padded_rows_read_as_unpadded_ones(family, make, ids):
    model = make(family)
    first = torch.tensor([0, 4, 9])
    cache = KVCache(model.config, 3, 24, first=first)
    with torch.no_grad():
        logits = torch.cat([model(ids[:, :15], cache=cache), model(ids[:, 15:], cache=cache)], dim=1)
        for row, start in enumerate(first.tolist()):
            torch.testing.assert_close(logits[row, start:], model(ids[row : row + 1, start:])[0], **CLOSE)


def test_full_cache_and_cache_with_documents_are_refused(make, ids):
    model = make("qwen3")
    with pytest.raises(ValueError, match="holds 8 tokens"):
        model(ids, cache=KVCache(model.config, 3, 8))
    with pytest.raises(ValueError, match="cannot be used together"):
        model(ids, document_ids=ids, cache=KVCache(model.config, 3, 24))


@pytest.mark.parametrize("tied", [False, True])
def test_first_loss_is_ln_vocab(family, tied):
    config = small_config(family, tied=tied, d_model=256, embedding_std=2 / 256 if tied else 1.0)
    model = build(config, seed=3)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, 120, (4, 24), generator=generator)
    targets = torch.randint(0, 120, (4, 24), generator=generator)
    loss = torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
    assert float(loss.detach()) == pytest.approx(math.log(128), abs=0.1 if tied else 0.03)


def test_build_depends_on_the_seed_alone_and_leaves_the_global_state(family):
    config = small_config(family)
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    one = build(config, seed=7)
    assert torch.equal(torch.rand(1), expected)
    two, other = build(config, seed=7), build(config, seed=8)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(one.embed.weight, other.embed.weight)


def test_every_parameter_has_a_role_and_learns(family, make, ids):
    model = make(family).train()
    model(ids).square().mean().backward()
    roles = {role for _, _, role in model.roles()}
    assert {"embedding", "head", "matrix"} <= roles
    assert ("norm" in roles) == (family == "qwen3")
    assert ("value_embedding" in roles) == ("scalar" in roles) == ("gate" in roles) == (family == "fast")
    for name, parameter, _ in model.roles():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name


def test_a_tied_matrix_is_one_parameter(make):
    model = make("qwen3", tied=True)
    assert model.head_weight is model.embed.weight
    assert [role for _, _, role in model.roles()].count("head") == 0


def test_soft_cap_bounds_logits(make, ids):
    model = make("nanochat", softcap=2.0)
    with torch.no_grad():
        model.head.weight.mul_(100)
    assert 1.9 < model(ids).abs().max() <= 2.0


@pytest.mark.parametrize("kind", ["dropout_embedding", "dropout_attention", "dropout_residual"])
def test_dropout_acts_in_training_only(make, ids, kind):
    model, plain = make("qwen3", **{kind: 0.3}), make("qwen3")
    assert torch.equal(model(ids), plain(ids))
    assert not torch.equal(model.train()(ids), plain(ids))


def test_counts_without_embeddings_leave_out_the_tables(make):
    model = make("fast")
    tables = 2 * 128 * 48 + 2 * 128 * model.config.kv_dim
    assert model.n_parameters() - model.n_parameters(with_embeddings=False) == tables
