"""Reading a Hugging Face model folder: config.json and safetensors, in one file or in shards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from umsicht.findings import UserError
from umsicht.words import t

from .foreign import from_foreign_config, from_foreign_state
from .transformer import Transformer
from .weights import CONFIG_FILE, WEIGHTS_FILE, empty, fill, read_tensors

INDEX_FILE = f"{WEIGHTS_FILE}.index.json"


def import_folder(folder: str | Path, *, n_tokens: int | None = None) -> Transformer:
    """The model in a Hugging Face folder, float32, in evaluation mode.

    Raises `UserError` for a missing file, for what our transformer does not express, and for any weight missing or left over.
    """
    folder = Path(folder)
    config = from_foreign_config(read_config(folder), n_tokens=n_tokens)
    model = empty(config)
    fill(model, from_foreign_state(config, read_all(folder)), where=str(folder))
    return model.eval()


def read_config(folder: Path) -> dict[str, Any]:
    """`config.json` of a folder. Raises `UserError` where there is none or it is no JSON object."""
    path = folder / CONFIG_FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict):
            raise ValueError(type(data).__name__)
    except FileNotFoundError as error:
        raise UserError(
            t("model.weights_missing", file=CONFIG_FILE), where=str(folder), fix=t("model.import_folder_fix")
        ) from error
    except ValueError as error:
        raise UserError(
            t("model.weights_config", reason=error), where=str(path), fix=t("model.import_folder_fix")
        ) from error
    return data


def read_all(folder: Path) -> dict[str, Tensor]:
    """Every tensor of the folder, float types as float32 (exact for bfloat16 and float16)."""
    if (folder / INDEX_FILE).is_file():
        index = json.loads((folder / INDEX_FILE).read_text(encoding="utf-8"))
        files = sorted(set(index["weight_map"].values()))
    else:
        files = [WEIGHTS_FILE]
    tensors: dict[str, Tensor] = {}
    for name in files:
        tensors |= read_tensors(folder / Path(name).name)
    return {name: value.float() if value.is_floating_point() else value for name, value in tensors.items()}


def largest_difference(one: Transformer, other: Transformer, ids: Tensor) -> float:
    """Largest absolute difference of the logits that two models give to `ids [batch, seq]`."""
    with torch.no_grad():
        return float((one.eval()(ids) - other.eval()(ids)).abs().max())
