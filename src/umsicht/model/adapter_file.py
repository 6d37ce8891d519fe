"""Adapters on disk in the format of PEFT: `adapter_config.json` and `adapter_model.safetensors`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save as save_bytes
from torch import Tensor

from umsicht.findings import UserError
from umsicht.record import atomic_json, atomic_write
from umsicht.words import t

from .build import build
from .config import LoraConfig, ModelConfig
from .foreign import ARCHITECTURES, foreign_name
from .lora import adapters, with_adapters
from .transformer import Transformer
from .weights import fill, read_tensors

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
_PREFIX = "base_model.model."
_MATRICES = {"lora_a": "lora_A", "lora_b": "lora_B"}


def save_adapter(model: Transformer, folder: str | Path, *, base: str = "") -> Path:
    """Write the adapters of `model` so that PEFT loads them onto the exported base (named `base`).

    Raises `UserError` for a family whose layers PEFT would not find under the same names, and for a model without adapters.
    """
    folder = Path(folder)
    config = model.config
    if config.lora is None or config.family not in ARCHITECTURES or config.family == "gpt2":
        raise UserError(t("model.adapter_family", family=config.family), fix=t("model.adapter_family_fix"))
    tensors = {}
    for name, layer in adapters(model).items():
        for ours, theirs in _MATRICES.items():
            value: Tensor = getattr(layer, ours)
            stored = _foreign_layer(config, name)
            tensors[f"{_PREFIX}{stored}.{theirs}.weight"] = value.detach().cpu().contiguous()
    atomic_write(folder / WEIGHTS, save_bytes(tensors, metadata={"format": "pt"}))
    atomic_json(folder / CONFIG, _peft_config(config, config.lora, base))
    return folder


def load_adapter(model: Transformer, folder: str | Path) -> Transformer:
    """`model` (without adapters) with those in `folder` beside its weights.

    Raises `UserError` for adapters of another kind or shape, and for any matrix missing or left over.
    """
    folder = Path(folder)
    try:
        stored: dict[str, Any] = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        lora = _lora_of(stored)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            t("model.adapter_config", reason=error),
            where=str(folder / CONFIG),
            fix=t("model.adapter_config_fix"),
        ) from error
    config = with_adapters(model.config, lora)
    out = build(config, 0)
    names = {_foreign_layer(config, name): name for name in adapters(out)}
    tensors: dict[str, Tensor] = dict(model.state_dict())
    for name, value in read_tensors(folder / WEIGHTS).items():
        tensors[_own_name(name, names)] = value
    fill(out, tensors, where=str(folder))
    return out.eval()


def _foreign_layer(config: ModelConfig, name: str) -> str:
    return foreign_name(config, f"{name}.weight").removesuffix(".weight")


def _own_name(name: str, names: Mapping[str, str]) -> str:
    layer, _, matrix = name.removeprefix(_PREFIX).removesuffix(".weight").rpartition(".")
    ours = {theirs: own for own, theirs in _MATRICES.items()}
    return f"{names[layer]}.{ours[matrix]}" if layer in names and matrix in ours else name


def _peft_config(config: ModelConfig, lora: LoraConfig, base: str) -> dict[str, Any]:
    names = {"up_proj": "fc1", "down_proj": "fc2"} if config.family == "nanochat" else {}
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": lora.r,
        "lora_alpha": lora.alpha,
        "lora_dropout": lora.dropout,
        "use_rslora": lora.rank_stabilised,
        "target_modules": [names.get(target, target) for target in lora.targets],
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "modules_to_save": None,
        "init_lora_weights": True,
    }


def _lora_of(stored: Mapping[str, Any]) -> LoraConfig:
    if stored.get("peft_type") != "LORA":
        raise ValueError(f"peft_type {stored.get('peft_type')}")
    for key in ("use_dora", "modules_to_save", "rank_pattern", "alpha_pattern", "lora_bias"):
        if stored.get(key):
            raise ValueError(key)
    if stored.get("bias", "none") != "none":
        raise ValueError(f"bias {stored['bias']}")
    names = {"fc1": "up_proj", "fc2": "down_proj"}
    targets = tuple(names.get(name, name) for name in stored["target_modules"])
    return LoraConfig(
        r=int(stored["r"]),
        alpha=float(stored["lora_alpha"]),
        dropout=float(stored.get("lora_dropout", 0.0)),
        rank_stabilised=bool(stored.get("use_rslora", False)),
        targets=tuple(sorted(set(targets))),
    )
