"""Writing a GGUF file for llama.cpp, and reading one back to compare.

Tensor names and keys are those of llama.cpp's architectures `qwen3` and `llama`. Extra `[gguf]`.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from umsicht.findings import UserError
from umsicht.tokenizer import Tokenizer
from umsicht.words import t

from .config import ModelConfig
from .transformer import Transformer
from .weights import empty, fill

GgufKind = Literal["f32", "f16", "q8_0"]
KINDS: tuple[GgufKind, ...] = ("f32", "f16", "q8_0")
BLOCK = 32
"""Values that share one scale in Q8_0; shorter rows stay F16."""

_FILE_TYPES = {"f32": 0, "f16": 1, "q8_0": 7}
_TOP = {
    "embed.weight": "token_embd.weight",
    "norm.weight": "output_norm.weight",
    "head.weight": "output.weight",
}
_BLOCK = {
    "attention_norm": "attn_norm",
    "attention.q_proj": "attn_q",
    "attention.k_proj": "attn_k",
    "attention.v_proj": "attn_v",
    "attention.o_proj": "attn_output",
    "attention.q_norm": "attn_q_norm",
    "attention.k_norm": "attn_k_norm",
    "mlp_norm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    """llama.cpp's name of our weight."""
    if name in _TOP:
        return _TOP[name]
    _, layer, rest = name.split(".", 2)
    part, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{_BLOCK[part]}.{kind}"


def write_gguf(
    config: ModelConfig,
    state: dict[str, Tensor],
    tokenizer: Tokenizer,
    path: Path,
    *,
    kind: GgufKind,
    name: str,
    chat_template: str | None = None,
) -> Path:
    """Write `state` (adapters merged) with its tokenizer to `path`, whole or not at all.

    Raises `UserError` for a family or a tokenizer that llama.cpp does not know, or where `gguf` is not installed.
    """
    _refuse(config, tokenizer)
    gguf = _library()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".tmp-{path.name}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    try:
        writer = gguf.GGUFWriter(temporary, config.family)
        _describe(writer, config, kind, name)
        _add_tokenizer(writer, config, tokenizer, chat_template, gguf)
        for weight, value in state.items():
            _add_tensor(writer, gguf, config, weight, value, kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


def read_gguf(path: Path, config: ModelConfig) -> Transformer:
    """The model in a GGUF file, quantised weights widened to float32. Raises `UserError` where it does not fit `config`."""
    gguf = _library()
    reader = gguf.GGUFReader(path)
    model = empty(config)
    names = {gguf_name(name): name for name in model.state_dict()}
    tensors = {}
    for entry in reader.tensors:
        values = np.array(gguf.quants.dequantize(entry.data, entry.tensor_type), dtype=np.float32)
        value = torch.from_numpy(values.reshape(tuple(int(n) for n in reversed(entry.shape))))
        own = names.get(entry.name, entry.name)
        tensors[own] = _permuted(config, own, value, _to_halves)
    fill(model, tensors, where=str(path))
    return model.eval()


def _library() -> Any:
    try:
        import gguf
    except ImportError as error:
        raise UserError(t("model.gguf_missing"), fix=t("model.gguf_missing_fix")) from error
    return gguf


def _refuse(config: ModelConfig, tokenizer: Tokenizer) -> None:
    if config.family not in ("qwen3", "llama") or config.softcap is not None:
        raise UserError(
            t("model.gguf_family", family=config.family), why=t("model.export_why"), fix=t("model.export_fix")
        )
    if tokenizer.pre_tokenizer is None:
        raise UserError(
            t("model.gguf_tokenizer"), why=t("model.gguf_tokenizer_why"), fix=t("model.gguf_tokenizer_fix")
        )


def _describe(writer: Any, config: ModelConfig, kind: GgufKind, name: str) -> None:
    writer.add_name(name)
    writer.add_file_type(_FILE_TYPES[kind])
    writer.add_quantization_version(2)
    writer.add_context_length(config.seq_len)
    writer.add_embedding_length(config.d_model)
    writer.add_block_count(config.n_layers)
    writer.add_feed_forward_length(config.d_ff)
    writer.add_head_count(config.n_heads)
    writer.add_head_count_kv(config.n_kv_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_vocab_size(config.vocab_size)


def _add_tokenizer(
    writer: Any, config: ModelConfig, tokenizer: Tokenizer, chat_template: str | None, gguf: Any
) -> None:
    kinds = gguf.TokenType
    tokens = [f"[UNUSED{number}]" for number in range(config.vocab_size)]
    types = [int(kinds.UNUSED)] * config.vocab_size
    for token, number in tokenizer.definition["model"]["vocab"].items():
        tokens[number], types[number] = token, int(kinds.NORMAL)
    for token, number in tokenizer.special.items():
        tokens[number], types[number] = token, int(kinds.CONTROL)
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer.definition["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(tokenizer.pre_tokenizer)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(tokenizer.eos_id)
    writer.add_pad_token_id(tokenizer.pad_id)
    writer.add_add_bos_token(False)
    if tokenizer.bos_id is not None:
        writer.add_bos_token_id(tokenizer.bos_id)
    if "<|im_end|>" in tokenizer.special:
        writer.add_eot_token_id(tokenizer.special["<|im_end|>"])
    if chat_template:
        writer.add_chat_template(chat_template)


def _add_tensor(
    writer: Any, gguf: Any, config: ModelConfig, name: str, value: Tensor, kind: GgufKind
) -> None:
    plain = _permuted(config, name, value.detach().float().cpu(), _to_pairs)
    values: NDArray[Any] = np.ascontiguousarray(plain.numpy())
    stored = gguf_name(name)
    if values.ndim == 1 or kind == "f32":
        writer.add_tensor(stored, values)
    elif kind == "q8_0" and values.shape[-1] % BLOCK == 0:
        quantised = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
        writer.add_tensor(stored, quantised, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    else:
        writer.add_tensor(stored, values.astype(np.float16))


def _permuted(
    config: ModelConfig, name: str, value: Tensor, order: Callable[[Tensor, int], Tensor]
) -> Tensor:
    """llama.cpp's `llama` rotates neighbouring values, ours (and its `qwen3`) those half a head apart."""
    if config.family == "llama" and name.endswith("q_proj.weight"):
        return order(value, config.n_heads)
    if config.family == "llama" and name.endswith("k_proj.weight"):
        return order(value, config.n_kv_heads)
    return value


def _to_pairs(value: Tensor, heads: int) -> Tensor:
    return value.reshape(heads, 2, -1, value.shape[1]).transpose(1, 2).reshape(value.shape)


def _to_halves(value: Tensor, heads: int) -> Tensor:
    return value.reshape(heads, -1, 2, value.shape[1]).transpose(1, 2).reshape(value.shape)
