"""Weights on disk: `config.json` and `model.safetensors`, loaded whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_bytes
from safetensors.torch import save as save_bytes
from torch import Tensor

from umsicht.findings import UserError
from umsicht.record import atomic_json, atomic_write
from umsicht.words import t

from .config import ModelConfig
from .shards import has_shards, read_shards
from .transformer import Transformer

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"


def save_weights(model: Transformer, folder: str | Path) -> Path:
    """Write the configuration and the weights of `model` into `folder`; each file whole or not at all."""
    folder = Path(folder)
    atomic_write(folder / WEIGHTS_FILE, save_bytes(state_of(model), metadata={"format": "pt"}))
    atomic_json(folder / CONFIG_FILE, model.config.to_dict())
    return folder


def load_weights(
    folder: str | Path, *, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> Transformer:
    """The model that `save_weights` wrote. Raises `UserError` for a missing, damaged or ill-fitting file."""
    folder = Path(folder)
    model = empty(load_config(folder))
    fill(model, _weights_in(folder), where=str(folder))
    return model.to(device=device, dtype=dtype)


def _weights_in(folder: Path) -> dict[str, Tensor]:
    """The weights of one file, or of a checkpoint that many processes wrote in parts."""
    if not (folder / WEIGHTS_FILE).is_file() and has_shards(folder):
        try:
            return read_shards(folder, "model/")
        except OSError as error:
            reason = t("model.weights_damaged", reason=error)
            raise UserError(reason, where=str(folder), fix=t("model.weights_damaged_fix")) from error
    return read_tensors(folder / WEIGHTS_FILE)


def load_config(folder: str | Path) -> ModelConfig:
    """The configuration in `folder`. Raises `UserError` where there is none that this version reads."""
    path = Path(folder) / CONFIG_FILE
    if not path.is_file():
        raise UserError(
            t("model.weights_missing", file=CONFIG_FILE),
            where=str(folder),
            fix=t("model.weights_missing_fix"),
        )
    try:
        return ModelConfig.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError, AttributeError) as error:
        reason = t("model.weights_config", reason=error)
        raise UserError(reason, where=str(path), fix=t("model.weights_config_fix")) from error


def empty(config: ModelConfig) -> Transformer:
    """A model whose weights are about to be replaced; the global random state is left untouched."""
    with torch.random.fork_rng(devices=[]):
        return Transformer(config)


def state_of(model: Transformer) -> dict[str, Tensor]:
    """Every weight once, on the CPU, contiguous."""
    return {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of one safetensors file. Raises `UserError` where it is missing or damaged."""
    if not path.is_file():
        raise UserError(
            t("model.weights_missing", file=path.name),
            where=str(path.parent),
            fix=t("model.weights_missing_fix"),
        )
    try:
        return load_bytes(path.read_bytes())
    except SafetensorError as error:
        reason = t("model.weights_damaged", reason=error)
        raise UserError(reason, where=str(path), fix=t("model.weights_damaged_fix")) from error


def fill(model: torch.nn.Module, tensors: Mapping[str, Tensor], *, where: str = "") -> None:
    """Copy `tensors` into `model`: every weight, the right shape, nothing left over; else `UserError`, model unchanged."""
    own = model.state_dict()
    problem = _difference({name: tuple(value.shape) for name, value in own.items()}, tensors)
    if problem:
        raise UserError(
            t("model.weights_mismatch", reason=problem),
            where=where,
            why=t("model.weights_mismatch_why"),
            fix=t("model.weights_mismatch_fix"),
        )
    with torch.no_grad():
        for name, value in own.items():
            value.copy_(tensors[name])


def _difference(expected: Mapping[str, tuple[int, ...]], tensors: Mapping[str, Tensor]) -> str:
    missing = sorted(set(expected) - set(tensors))
    unexpected = sorted(set(tensors) - set(expected))
    problems = []
    if missing:
        problems.append(t("model.mismatch_missing", names=_some(missing)))
    if unexpected:
        problems.append(t("model.mismatch_unexpected", names=_some(unexpected)))
    for name in sorted(set(expected) & set(tensors)):
        if tuple(tensors[name].shape) != expected[name]:
            got = list(tensors[name].shape)
            problems.append(t("model.mismatch_shape", name=name, got=got, expected=list(expected[name])))
            break
    return "; ".join(problems)


def _some(names: list[str], limit: int = 4) -> str:
    more = f" … ({len(names)})" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
