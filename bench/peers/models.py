"""Other programs' models in one shape, from their own packages; imported under the peers' Python, never under ours."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Shape:
    """What all programs of a comparison share."""

    vocab: int
    width: int
    layers: int
    heads: int
    length: int
    hidden: int


def transformers_llama(shape: Shape) -> Any:
    """Hugging Face's Llama."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=shape.vocab,
        hidden_size=shape.width,
        intermediate_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        max_position_embeddings=shape.length,
        tie_word_embeddings=False,
    )
    return LlamaForCausalLM(config)


def litgpt(shape: Shape) -> Any:
    """litgpt's GPT in its Llama shape."""
    from litgpt import GPT, Config

    config = Config(
        block_size=shape.length,
        n_layer=shape.layers,
        n_embd=shape.width,
        n_head=shape.heads,
        vocab_size=shape.vocab,
        padded_vocab_size=shape.vocab,
        rotary_percentage=1.0,
        parallel_residual=False,
        bias=False,
        norm_class_name="RMSNorm",
        mlp_class_name="LLaMAMLP",
        intermediate_size=shape.hidden,
    )
    return GPT(config)


def nanogpt(shape: Shape) -> Any:
    """nanoGPT's GPT, from the folder in NANOGPT_DIR."""
    sys.path.insert(0, os.environ["NANOGPT_DIR"])
    from model import GPT, GPTConfig

    config = GPTConfig(
        block_size=shape.length,
        vocab_size=shape.vocab,
        n_layer=shape.layers,
        n_head=shape.heads,
        n_embd=shape.width,
        dropout=0.0,
        bias=False,
    )
    return GPT(config)


def nanochat(shape: Shape) -> Any:
    """nanochat's GPT, from the folder in NANOCHAT_DIR, with its own starting weights; every layer sees the whole of so short a row."""
    sys.path.insert(0, os.environ["NANOCHAT_DIR"])
    from nanochat.gpt import GPT, GPTConfig

    config = GPTConfig(
        sequence_len=shape.length,
        vocab_size=shape.vocab,
        n_layer=shape.layers,
        n_head=shape.heads,
        n_kv_head=shape.heads,
        n_embd=shape.width,
        window_pattern="L",
    )
    model = GPT(config)
    model.init_weights()
    return model
