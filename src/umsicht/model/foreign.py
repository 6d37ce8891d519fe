"""Our configuration and weight names ↔ Hugging Face's: Qwen3, Llama, NanoChat and GPT-2.

Only file formats meet here; nothing of `transformers` is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from umsicht.findings import UserError
from umsicht.words import t

from .config import Family, ModelConfig

ARCHITECTURES: dict[Family, tuple[str, str]] = {
    "qwen3": ("qwen3", "Qwen3ForCausalLM"),
    "llama": ("llama", "LlamaForCausalLM"),
    "nanochat": ("nanochat", "NanoChatForCausalLM"),
    "gpt2": ("gpt2", "GPT2LMHeadModel"),
}
"""Family → Hugging Face's `model_type` and class."""

_BLOCK = {
    "attention_norm": "input_layernorm",
    "attention.q_proj": "self_attn.q_proj",
    "attention.k_proj": "self_attn.k_proj",
    "attention.v_proj": "self_attn.v_proj",
    "attention.o_proj": "self_attn.o_proj",
    "attention.q_norm": "self_attn.q_norm",
    "attention.k_norm": "self_attn.k_norm",
    "mlp_norm": "post_attention_layernorm",
    "mlp.gate_proj": "mlp.gate_proj",
    "mlp.up_proj": "mlp.up_proj",
    "mlp.down_proj": "mlp.down_proj",
}
_TWO_LAYER = {"mlp.up_proj": "mlp.fc1", "mlp.down_proj": "mlp.fc2"}
_GPT2_TOP = {"embed": "wte", "positions": "wpe", "norm": "ln_f"}
_GPT2_BLOCK = {
    "attention_norm": "ln_1",
    "attention.o_proj": "attn.c_proj",
    "mlp_norm": "ln_2",
    "mlp.up_proj": "mlp.c_fc",
    "mlp.down_proj": "mlp.c_proj",
}


def foreign_name(config: ModelConfig, name: str) -> str:
    """Hugging Face's name of our weight `name` (Llama-like families and NanoChat)."""
    if name == "embed.weight":
        return "model.embed_tokens.weight"
    if name == "head.weight":
        return "lm_head.weight"
    if name == "norm.weight":
        return "model.norm.weight"
    _, layer, rest = name.split(".", 2)
    part, kind = rest.rsplit(".", 1)
    block = _BLOCK if config.is_gated else {**_BLOCK, **_TWO_LAYER}
    return f"model.layers.{layer}.{block[part]}.{kind}"


def to_foreign_config(
    config: ModelConfig, *, eos_id: int, pad_id: int, dtype: str = "float32"
) -> dict[str, Any]:
    """`config.json` in the form of transformers 5. Raises `UserError` for what no published class expresses."""
    _refuse_inexpressible(config)
    model_type, architecture = ARCHITECTURES[config.family]
    common = {
        "architectures": [architecture],
        "model_type": model_type,
        "dtype": dtype,
        "vocab_size": config.vocab_size,
        "bos_token_id": None,
        "eos_token_id": eos_id,
        "pad_token_id": pad_id,
        "tie_word_embeddings": config.tied,
        "use_cache": True,
    }
    if config.family == "gpt2":
        return common | {
            "n_embd": config.d_model,
            "n_layer": config.n_layers,
            "n_head": config.n_heads,
            "n_inner": config.d_ff,
            "n_positions": config.seq_len,
            "layer_norm_epsilon": config.norm_eps,
            "activation_function": "gelu_new",
            "attn_pdrop": config.dropout_attention,
            "embd_pdrop": config.dropout_embedding,
            "resid_pdrop": config.dropout_residual,
        }
    shape = common | {
        "hidden_size": config.d_model,
        "intermediate_size": config.d_ff,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.n_kv_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.seq_len,
        "rms_norm_eps": config.norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "attention_bias": False,
        "attention_dropout": config.dropout_attention,
        "hidden_act": "silu" if config.is_gated else "relu2",
        "initializer_range": 0.02,
    }
    if config.family == "nanochat":
        shape["final_logit_softcapping"] = config.softcap
    if config.family == "llama":
        shape["mlp_bias"] = False
    if config.family == "qwen3":
        shape |= {"use_sliding_window": False, "sliding_window": None}
    return shape


def _refuse_inexpressible(config: ModelConfig) -> None:
    reason = None
    if config.family not in ARCHITECTURES:
        reason = t("model.export_family", family=config.family)
    elif config.softcap is not None and config.family != "nanochat":
        reason = t("model.export_softcap", family=config.family)
    if reason:
        raise UserError(
            reason, where=t("model.section"), why=t("model.export_why"), fix=t("model.export_fix")
        )


def to_foreign_state(config: ModelConfig, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our weights (adapters merged) under Hugging Face's names."""
    if config.family == "gpt2":
        return _to_gpt2(config, state)
    return {foreign_name(config, name): value.contiguous() for name, value in state.items()}


def from_foreign_config(data: Mapping[str, Any], *, n_tokens: int | None = None) -> ModelConfig:
    """Our configuration of a Hugging Face `config.json`. Raises `UserError` naming what we do not express, or cannot read.

    `n_tokens` is the tokenizer's count where it is known; ids beyond it are never written.
    """
    try:
        return _from_config(data, n_tokens)
    except KeyError as error:
        raise _unreadable(t("model.config_lacks", key=error.args[0])) from error
    except (TypeError, ValueError) as error:
        raise _unreadable(str(error)) from error


def _unreadable(reason: str) -> UserError:
    return UserError(t("model.weights_config", reason=reason), fix=t("model.import_folder_fix"))


def _from_config(data: Mapping[str, Any], n_tokens: int | None) -> ModelConfig:
    kinds = {model_type: family for family, (model_type, _) in ARCHITECTURES.items()}
    family = kinds.get(str(data.get("model_type")))
    if family is None:
        raise _cannot_import(t("model.import_type", kind=data.get("model_type"), known=", ".join(kinds)))
    if family == "gpt2":
        return _from_gpt2_config(data, n_tokens)
    rope = dict(data.get("rope_parameters") or data.get("rope_scaling") or {})
    thetas = {float(part["rope_theta"]) for part in (rope, data) if part.get("rope_theta")}
    theta = max(thetas, default=10_000.0)
    kind = rope.get("rope_type", rope.get("type", "default"))
    for problem, found in {
        t("model.import_rope", kind=kind): kind != "default",
        t("model.import_theta", one=min(thetas, default=0), other=theta): len(thetas) > 1,
        t("model.import_partial"): any(
            part.get("partial_rotary_factor", 1.0) not in (None, 1, 1.0) for part in (rope, data)
        ),
        t("model.import_bias"): bool(data.get("attention_bias") or data.get("mlp_bias")),
        t("model.import_window"): bool(data.get("use_sliding_window"))
        or any(one != "full_attention" for one in data.get("layer_types") or ()),
        t("model.import_activation", kind=data.get("hidden_act")): data.get("hidden_act")
        not in (None, "silu", "relu2"),
    }.items():
        if found:
            raise _cannot_import(problem)
    vocab, d, heads = int(data["vocab_size"]), int(data["hidden_size"]), int(data["num_attention_heads"])
    return ModelConfig(
        family=family,
        n_tokens=min(n_tokens or vocab, vocab),
        vocab_size=vocab,
        d_model=d,
        n_layers=int(data["num_hidden_layers"]),
        n_heads=heads,
        n_kv_heads=int(data.get("num_key_value_heads") or heads),
        head_dim=int(data.get("head_dim") or d // heads),
        d_ff=int(data["intermediate_size"]),
        seq_len=int(data["max_position_embeddings"]),
        tied=bool(data.get("tie_word_embeddings", False)),
        rope_theta=theta,
        norm_eps=float(data.get("rms_norm_eps", 1e-6)),
        softcap=data.get("final_logit_softcapping", 15.0) if family == "nanochat" else None,
        dropout_attention=float(data.get("attention_dropout") or 0.0),
    )


def from_foreign_state(config: ModelConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Hugging Face's weights under our names. Names nobody knows are kept, so that loading refuses them aloud."""
    _refuse_second_head(config, tensors)
    if config.family == "gpt2":
        return _from_gpt2(config, tensors)
    names = {foreign_name(config, name): name for name in _own_names(config)}
    state = {names.get(name, name): value for name, value in tensors.items()}
    if config.tied:
        # Some writers store the tied matrix twice.
        state.pop("lm_head.weight", None)
    return {name: value for name, value in state.items() if not name.endswith("rotary_emb.inv_freq")}


def _refuse_second_head(config: ModelConfig, tensors: Mapping[str, Tensor]) -> None:
    """Tied by the configuration, but two different matrices in the file: one of the two was trained for nothing."""
    head = tensors.get("lm_head.weight")
    names = ("model.embed_tokens.weight", "transformer.wte.weight", "wte.weight")
    table = next((tensors[name] for name in names if name in tensors), None)
    if config.tied and head is not None and table is not None and not torch.equal(head, table):
        raise _cannot_import(t("model.import_head"))


def _own_names(config: ModelConfig) -> list[str]:
    from .transformer import Transformer

    with torch.device("meta"):
        return list(Transformer(config).state_dict())


def _cannot_import(reason: str) -> UserError:
    return UserError(
        t("model.import_refused", reason=reason), why=t("model.import_why"), fix=t("model.import_fix")
    )


def _from_gpt2_config(data: Mapping[str, Any], n_tokens: int | None) -> ModelConfig:
    if data.get("activation_function", "gelu_new") not in ("gelu_new", "gelu_pytorch_tanh"):
        raise _cannot_import(t("model.import_activation", kind=data.get("activation_function")))
    if data.get("scale_attn_by_inverse_layer_idx") or not data.get("scale_attn_weights", True):
        raise _cannot_import(t("model.import_scale"))
    vocab, d, heads = int(data["vocab_size"]), int(data["n_embd"]), int(data["n_head"])
    return ModelConfig(
        family="gpt2",
        n_tokens=min(n_tokens or vocab, vocab),
        vocab_size=vocab,
        d_model=d,
        n_layers=int(data["n_layer"]),
        n_heads=heads,
        n_kv_heads=heads,
        head_dim=d // heads,
        d_ff=int(data.get("n_inner") or 4 * d),
        seq_len=int(data.get("n_positions") or data.get("n_ctx") or 1024),
        tied=bool(data.get("tie_word_embeddings", True)),
        norm_eps=float(data.get("layer_norm_epsilon", 1e-5)),
        dropout_embedding=float(data.get("embd_pdrop", 0.1)),
        dropout_attention=float(data.get("attn_pdrop", 0.1)),
        dropout_residual=float(data.get("resid_pdrop", 0.1)),
    )


def _to_gpt2(config: ModelConfig, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """GPT-2 keeps queries, keys and values in one matrix, and every matrix of a block transposed."""
    out = {f"transformer.{theirs}.weight": state[f"{ours}.weight"] for ours, theirs in _GPT2_TOP.items()}
    out["transformer.ln_f.bias"] = state["norm.bias"]
    if not config.tied:
        out["lm_head.weight"] = state["head.weight"]
    for layer in range(config.n_layers):
        ours, theirs = f"layers.{layer}.", f"transformer.h.{layer}."
        joined = [f"{ours}attention.{part}_proj" for part in "qkv"]
        out[f"{theirs}attn.c_attn.weight"] = (
            torch.cat([state[f"{n}.weight"] for n in joined]).t().contiguous()
        )
        out[f"{theirs}attn.c_attn.bias"] = torch.cat([state[f"{n}.bias"] for n in joined])
        for mine, name in _GPT2_BLOCK.items():
            weight = state[f"{ours}{mine}.weight"]
            out[f"{theirs}{name}.weight"] = weight if weight.dim() == 1 else weight.t().contiguous()
            out[f"{theirs}{name}.bias"] = state[f"{ours}{mine}.bias"]
    return out


def _from_gpt2(config: ModelConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    plain = {name.removeprefix("transformer."): value for name, value in tensors.items()}
    state: dict[str, Tensor] = {}
    top = {theirs: ours for ours, theirs in _GPT2_TOP.items()}
    block = {theirs: ours for ours, theirs in _GPT2_BLOCK.items()}
    for name, value in plain.items():
        head, _, kind = name.rpartition(".")
        if head in top:
            state[f"{top[head]}.{kind}"] = value
        elif name == "lm_head.weight":
            if not config.tied:
                state["head.weight"] = value
        elif head.startswith("h."):
            _, layer, part = head.split(".", 2)
            if part == "attn.c_attn":
                parts = (value.t() if kind == "weight" else value).chunk(3, dim=0)
                for letter, piece in zip("qkv", parts, strict=True):
                    state[f"layers.{layer}.attention.{letter}_proj.{kind}"] = piece
            elif part in block:
                is_matrix = kind == "weight" and not part.startswith("ln_")
                state[f"layers.{layer}.{block[part]}.{kind}"] = value.t() if is_matrix else value
            elif part != "attn" or kind not in ("bias", "masked_bias"):
                state[name] = value
        else:
            state[name] = value
    return state
