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

    Raises `UserError` for a missing file, for what our transformer does not express, and for any weight missing, left over or not a number.
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
        is_adapter = (folder / "adapter_config.json").is_file()
        fix = t("model.import_adapter_fix" if is_adapter else "model.import_folder_fix")
        raise UserError(t("model.weights_missing", file=CONFIG_FILE), where=str(folder), fix=fix) from error
    except ValueError as error:
        raise UserError(
            t("model.weights_config", reason=error), where=str(path), fix=t("model.import_folder_fix")
        ) from error
    return data


def read_all(folder: Path) -> dict[str, Tensor]:
    """Every tensor of the folder, float types as float32 (exact for bfloat16 and float16). Raises `UserError` for one that is not finite."""
    tensors: dict[str, Tensor] = {}
    for name in _files_of(folder):
        tensors |= read_tensors(folder / Path(name).name)
    for name, value in tensors.items():
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise UserError(
                t("model.import_nonfinite", name=name),
                where=str(folder),
                why=t("model.import_nonfinite_why"),
                fix=t("model.import_nonfinite_fix"),
            )
    return {name: value.float() if value.is_floating_point() else value for name, value in tensors.items()}


def _files_of(folder: Path) -> list[str]:
    """The files that hold the weights. Raises `UserError` for an index that cannot be read, and for weights of another format."""
    index = folder / INDEX_FILE
    if index.is_file():
        try:
            return sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                t("model.import_index", reason=error), where=str(index), fix=t("model.import_folder_fix")
            ) from error
    if not (folder / WEIGHTS_FILE).is_file() and any(folder.glob("*.bin")):
        raise UserError(
            t("model.weights_missing", file=WEIGHTS_FILE), where=str(folder), fix=t("model.import_pickle_fix")
        )
    return [WEIGHTS_FILE]


def largest_difference(one: Transformer, other: Transformer, ids: Tensor) -> float:
    """Largest absolute difference of the logits that two models give to `ids [batch, seq]`."""
    with torch.no_grad():
        return float((one.eval()(ids) - other.eval()(ids)).abs().max())
