"""The checks on models from PyPI that Umsicht did not write. Skipped, with the reason printed, where the packages are not installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.guard.models import VOCAB, cross_entropy, grouped, hugging, pairs

from umsicht.guard import check

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def of_transformers(kind: str) -> torch.nn.Module:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed (extra hf)")
    torch.manual_seed(0)
    if kind == "GPT2":
        return transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=VOCAB,
                n_positions=64,
                n_embd=32,
                n_layer=2,
                n_head=2,
                bos_token_id=0,
                eos_token_id=0,
                loss_type="ForCausalLM",
            )
        )
    settings = {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    if kind == "Qwen3":
        return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**settings, head_dim=8))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings))


def of_litgpt() -> torch.nn.Module:
    litgpt = pytest.importorskip("litgpt", reason="litgpt is not installed")
    torch.manual_seed(0)
    model = litgpt.GPT(
        litgpt.Config(
            name="x",
            block_size=64,
            vocab_size=VOCAB,
            padded_vocab_size=VOCAB,
            n_layer=2,
            n_head=4,
            n_embd=32,
            intermediate_size=64,
        )
    )
    model.apply(model._init_weights)
    return model  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", ["GPT2", "Llama", "Qwen3"])
def test_transformers_healthy(kind: str) -> None:
    model = of_transformers(kind)
    report = check(model=model, batches=hugging(), optimizer=grouped(model), all=True)
    assert [f.id for f in report if f.grade != "note"] == []


def test_litgpt_healthy() -> None:
    model = of_litgpt()
    report = check(model=model, loss=cross_entropy, batches=pairs(), optimizer=grouped(model), all=True)
    assert [f.id for f in report if f.grade != "note"] == []


def future(model: Any) -> dict[str, Any]:
    block = model.transformer.h[1]
    real = block.forward
    block.forward = lambda x, *a, **k: real(x, *a, **k) + 1e-3 * x.roll(-1, 1)
    return {}


def rotary(model: Any) -> dict[str, Any]:
    model.cos, model.sin = model.cos.bfloat16().float(), model.sin.bfloat16().float()
    return {}


def odd(model: Any) -> dict[str, Any]:
    with torch.no_grad():
        model.transformer.h[1].attn.proj.weight.mul_(5)
    return {}


def twice(model: Any) -> dict[str, Any]:
    return {"loss": lambda logits, targets: cross_entropy(logits[:, :-1], targets[:, 1:])}


def omitted(model: Any) -> dict[str, Any]:
    kept = [p for n, p in model.named_parameters() if "h.1.norm_1" not in n]
    return {"optimizer": torch.optim.AdamW(kept, lr=1e-3, weight_decay=0.0)}


def frozen(model: Any) -> dict[str, Any]:
    model.transformer.h[0].mlp.requires_grad_(False)
    return {}


def masked_end(model: Any) -> dict[str, Any]:
    batches = pairs()
    for _, targets in batches:
        targets[:, 10:] = -100
    return {
        "batches": batches,
        "loss": lambda logits, targets: torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), targets.clamp_min(0).flatten()
        ),
    }


@pytest.mark.parametrize(
    ("plant", "family"),
    [
        (future, "LEAK-FUTURE"),
        (rotary, "NUMERIC"),
        (odd, "NUMERIC"),
        (twice, "TARGET-SHIFT"),
        (omitted, "OPT-WIRING"),
        (frozen, "OPT-WIRING"),
        (masked_end, "TARGET-MASK"),
    ],
)
def test_litgpt_broken(plant: Callable[[Any], dict[str, Any]], family: str) -> None:
    model = of_litgpt()
    arguments = {"model": model, "loss": cross_entropy, "batches": pairs(), "optimizer": None, **plant(model)}
    arguments["optimizer"] = arguments["optimizer"] or grouped(model)
    report = check(**arguments)
    assert report.cause is not None and report.cause.family == family, list(report)
