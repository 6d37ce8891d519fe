"""Our models against Hugging Face's own classes, both ways. Runs where the extra [oracle] is installed."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

from model.small import small_config, stirred
from umsicht.model import ModelConfig
from umsicht.model.foreign import to_foreign_config, to_foreign_state
from umsicht.model.import_folder import import_folder

transformers = pytest.importorskip("transformers", reason="the extra [oracle] is not installed")

IDS = torch.randint(0, 120, (3, 24), generator=torch.Generator().manual_seed(5))
GPT2 = {"n_kv_heads": 4, "tied": True, "norm_eps": 1e-5}
CASES = [
    ("qwen3", {}),
    ("qwen3", {"tied": True, "rope_theta": 1e6}),
    ("qwen3", {"head_dim": 16}),
    ("nanochat", {}),
    ("nanochat", {"softcap": 3.0, "n_kv_heads": 4}),
    ("llama", {"norm_eps": 1e-5}),
    ("llama", {"tied": True}),
    ("gpt2", GPT2),
]


def config_of(family: str, changes: dict[str, object]) -> ModelConfig:
    return small_config(family, **{"softcap": 15.0 if family == "nanochat" else None, **changes})


@pytest.mark.parametrize(("family", "changes"), CASES)
def test_exported_weights_answer_the_same_in_transformers(family, changes, tmp_path):
    model = stirred(config_of(family, changes))
    config = to_foreign_config(model.config, eos_id=0, pad_id=1)
    (tmp_path / "config.json").write_text(json.dumps(config))
    state = to_foreign_state(model.config, {n: v.detach().clone() for n, v in model.state_dict().items()})
    save_file(state, tmp_path / "model.safetensors", metadata={"format": "pt"})
    theirs, report = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    with torch.no_grad():
        ours, expected = model(IDS), theirs.eval()(IDS).logits
    assert ours.abs().max() > 1
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)


def foreign_model(kind: str):
    shape = {"vocab_size": 128, "tie_word_embeddings": False}
    llama_like = {
        "hidden_size": 48,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
    }
    torch.manual_seed(3)
    if kind == "gpt2":
        config = transformers.GPT2Config(vocab_size=128, n_embd=48, n_layer=3, n_head=4, n_positions=64)
        return transformers.GPT2LMHeadModel(config).eval()
    classes = {
        "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM, {"head_dim": 12}),
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM, {}),
        "nanochat": (transformers.NanoChatConfig, transformers.NanoChatForCausalLM, {}),
    }
    config_class, model_class, more = classes[kind]
    return model_class(config_class(**shape, **llama_like, **more)).eval()


@pytest.mark.parametrize("kind", ["qwen3", "llama", "nanochat", "gpt2"])
def test_foreign_folders_come_in_with_equal_logits(kind, tmp_path):
    theirs = foreign_model(kind)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    theirs.save_pretrained(tmp_path, max_shard_size="60KB" if kind == "qwen3" else "5GB")
    ours = import_folder(tmp_path)
    with torch.no_grad():
        torch.testing.assert_close(ours(IDS), theirs(IDS).logits, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["qwen3", "gpt2"])
def test_generated_text_is_the_same_greedily(kind, tmp_path):
    from umsicht.score import generate

    theirs = foreign_model(kind)
    theirs.save_pretrained(tmp_path)
    ours = import_folder(tmp_path)
    prompt = IDS[0, :7].tolist()
    expected = theirs.generate(
        torch.tensor([prompt]), max_new_tokens=20, do_sample=False, eos_token_id=None, pad_token_id=0
    )[0, 7:].tolist()
    assert list(generate(ours, prompt, max_new_tokens=20, temperature=0.0)) == expected


def test_sampling_rules_filter_as_transformers_does():
    from transformers.generation import logits_process as hf

    from umsicht.score import SamplingRule

    logits = 3 * torch.randn(40, generator=torch.Generator().manual_seed(0))
    seen = [1, 5, 5, 9]
    rule = SamplingRule(temperature=0.7, top_k=20, top_p=0.85, min_p=0.02, repetition_penalty=1.3)
    chain = transformers.LogitsProcessorList(
        [
            hf.RepetitionPenaltyLogitsProcessor(1.3),
            hf.TemperatureLogitsWarper(0.7),
            hf.TopKLogitsWarper(20),
            hf.TopPLogitsWarper(0.85),
            hf.MinPLogitsWarper(0.02),
        ]
    )
    expected = chain(torch.tensor([seen]), logits[None].clone())[0]
    torch.testing.assert_close(rule.filtered(logits, seen), expected)
