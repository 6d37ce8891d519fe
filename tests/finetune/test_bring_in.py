"""A folder that says two things, or holds what is no number, is refused; one that says the same thing twice is not."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from bench.finetune.project import base_run, fresh
from safetensors.torch import load_file, save_file

from umsicht.findings import UserError
from umsicht.finetune import export, open_subject
from umsicht.finetune.bring_in import bring_in
from umsicht.model.import_folder import import_folder


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    export(open_subject(base_run(folder / "project", fresh(), evaluated=False)), folder / "hf")
    return folder / "hf"


@pytest.fixture
def folder(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "hf")


def configured(folder, **changes):
    path = folder / "config.json"
    plain = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: value for name, value in plain.items() if value is not None}))


def weighed(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rope_theta": 123456.0}, "123456"),
        ({"partial_rotary_factor": 0.5}, "part of each head"),
        ({"layer_types": ["sliding_attention", "full_attention"]}, "sliding"),
        ({"tie_word_embeddings": True}, "two different ones"),
        ({"eos_token_id": 9999}, "9999"),
        ({"hidden_size": None}, "hidden_size"),
        ({"num_attention_heads": "two"}, "two"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused_by_name(folder, changes, said):
    configured(folder, **changes)
    with pytest.raises(UserError, match=said):
        bring_in(folder, folder.parent / "project")


def test_a_name_that_is_no_folder_here_is_said_to_be_none(tmp_path):
    for name, said in (("nope", "nope"), ("Qwen/Qwen3-0.6B", "hf download Qwen/Qwen3-0.6B")):
        with pytest.raises(UserError, match="There is no") as caught:
            bring_in(name, tmp_path)
        assert said in f"{caught.value.what} {caught.value.fix}"
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(UserError, match="is a file"):
        bring_in(tmp_path / "model.safetensors", tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_theta": 10000.0},
        {"partial_rotary_factor": 1.0},
        {"layer_types": ["full_attention", "full_attention"]},
        {"eos_token_id": [408, 409]},
    ],
)
def test_the_same_thing_said_twice_is_no_contradiction(folder, changes):
    configured(folder, **changes)
    bring_in(folder, folder.parent / "project")


def test_a_tied_matrix_stored_twice_is_read_and_two_different_ones_are_refused(folder):
    configured(folder, tie_word_embeddings=True)
    weighed(folder, lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].clone()}))
    assert import_folder(folder).config.tied
    weighed(folder, lambda t: t["lm_head.weight"].add_(1))
    with pytest.raises(UserError, match="two different"):
        import_folder(folder)


def test_a_weight_that_is_no_number_is_named(folder):
    name = "model.layers.0.mlp.up_proj.weight"
    weighed(folder, lambda t: t.update({name: (t[name] * 1e7).half()}))
    with pytest.raises(UserError, match=name):
        import_folder(folder)


def test_an_adapter_a_pickle_and_a_broken_index_are_told_what_to_do(folder):
    (folder / "model.safetensors.index.json").write_text("{")
    with pytest.raises(UserError, match="index"):
        import_folder(folder)
    (folder / "model.safetensors.index.json").unlink()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError) as caught:
        import_folder(folder)
    assert "safetensors" in caught.value.fix and "pickled" in caught.value.fix
    (folder / "config.json").rename(folder / "adapter_config.json")
    with pytest.raises(UserError) as caught:
        import_folder(folder)
    assert "merge" in caught.value.fix.lower()


def test_the_same_weights_under_another_configuration_are_another_run(folder):
    project = folder.parent / "project"
    first = bring_in(folder, project)
    configured(folder, rope_parameters={"rope_type": "default", "rope_theta": 77.0})
    second = bring_in(folder, project)
    assert second.folder != first.folder
    assert open_subject(second).model.config.rope_theta == 77.0
    with torch.no_grad():
        ids = torch.arange(40)[None]
        assert not torch.equal(open_subject(first).model(ids), open_subject(second).model(ids))
