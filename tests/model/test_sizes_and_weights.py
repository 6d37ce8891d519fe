"""Sizes from one dial; weights on disk, whole or refused."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from umsicht.findings import UserError
from umsicht.model import ModelConfig, derive, describe, load_weights, save_weights
from umsicht.recipe.model import ModelSettings

from .small import small_config


@pytest.mark.parametrize(
    ("d_model", "expected"),
    [
        (64, (2, 2, 2, 32, 192)),
        (128, (4, 2, 2, 64, 384)),
        (256, (4, 2, 2, 128, 704)),
        (768, (12, 6, 6, 128, 2048)),
        (2048, (32, 16, 8, 128, 5504)),
    ],
)
def test_the_dial_gives_every_size(d_model, expected):
    config = derive(ModelSettings(d_model=d_model), 4000)
    assert (config.n_layers, config.n_heads, config.n_kv_heads, config.head_dim, config.d_ff) == expected
    assert (config.n_tokens, config.vocab_size) == (4000, 4096)


def test_what_the_recipe_names_is_kept_and_marked():
    settings = ModelSettings(d_model=256, n_layers=2, softcap=30.0)
    config = derive(settings, 128)
    derived = {name: is_derived for name, _, is_derived in describe(config, settings)}
    assert (config.n_layers, config.softcap, config.vocab_size) == (2, 30.0, 128)
    assert not derived["n_layers"] and not derived["softcap"] and derived["n_heads"] and derived["vocab_size"]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"d_model": 20}, "20"),
        ({"n_heads": 3, "n_kv_heads": 2}, "n_kv_heads"),
        ({"head_dim": 33}, "head_dim"),
    ],
)
def test_sizes_that_do_not_fit_are_named(settings, named):
    with pytest.raises(UserError) as caught:
        derive(ModelSettings(**settings), 100)
    assert named in caught.value.what and caught.value.fix


def test_configuration_survives_json_and_refuses_strangers():
    config = small_config("fast")
    plain = json.loads(json.dumps(config.to_dict()))
    assert ModelConfig.from_dict(plain) == config
    with pytest.raises(ValueError, match="colour"):
        ModelConfig.from_dict({**plain, "colour": 1})
    with pytest.raises(ValueError, match="version 99"):
        ModelConfig.from_dict({**plain, "version": 99})


@pytest.mark.parametrize("tied", [False, True])
def test_weights_come_back_exactly(family, make, ids, tmp_path, tied):
    model = make(family, tied=tied)
    again = load_weights(save_weights(model, tmp_path / "m")).eval()
    assert torch.equal(again(ids), model(ids))
    assert (again.head_weight is again.embed.weight) == tied


def damage(folder, kind):
    weights = folder / "model.safetensors"
    if kind == "cut":
        weights.write_bytes(weights.read_bytes()[:-100])
        return
    if kind in ("no-weights", "no-config"):
        (weights if kind == "no-weights" else folder / "config.json").unlink()
        return
    if kind == "bad-config":
        (folder / "config.json").write_text("[1, 2")
        return
    tensors = load_file(weights)
    if kind == "missing":
        del tensors["layers.1.mlp.up_proj.weight"]
    elif kind == "extra":
        tensors["surprise"] = torch.zeros(1)
    else:
        tensors["embed.weight"] = tensors["embed.weight"][:-1].contiguous()
    save_file(tensors, weights)


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("missing", "layers.1.mlp.up_proj.weight"),
        ("extra", "surprise"),
        ("shape", "embed.weight"),
        ("cut", ""),
        ("no-weights", "model.safetensors"),
        ("no-config", "config.json"),
        ("bad-config", ""),
    ],
)
def test_a_folder_that_is_not_whole_is_refused(make, tmp_path, kind, named):
    folder = save_weights(make("qwen3"), tmp_path / "m")
    damage(folder, kind)
    with pytest.raises(UserError) as caught:
        load_weights(folder)
    assert named in caught.value.what and caught.value.fix
