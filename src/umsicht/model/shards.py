"""Reading checkpoints that many processes wrote in parts (torch.distributed.checkpoint), in one process that holds all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

SHARDS = "shards"


def has_shards(folder: Path) -> bool:
    """True where the weights in `folder` lie in parts."""
    return (folder / SHARDS / ".metadata").is_file()


def read_shards(folder: Path, prefix: str) -> dict[str, Tensor]:
    """Every tensor whose name begins with `prefix` (taken off), whole. Raises OSError where a part cannot be read."""
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    reader = FileSystemReader(str(folder / SHARDS))
    found: dict[str, Any] = {}
    for name, entry in reader.read_metadata().state_dict_metadata.items():
        if name.startswith(prefix) and isinstance(entry, TensorStorageMetadata):
            found[name] = torch.empty(entry.size, dtype=entry.properties.dtype)
    load_parts(found, folder, alone=True)
    return {name.removeprefix(prefix): tensor for name, tensor in found.items()}


def load_parts(tensors: dict[str, Any], folder: Path, *, alone: bool = False) -> None:
    """Fill `tensors` (plain or distributed) in place from the parts in `folder`; collective unless `alone`. Raises OSError."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.state_dict_loader import load

    try:
        load(tensors, storage_reader=FileSystemReader(str(folder / SHARDS)), no_dist=alone)
    except CheckpointException as error:  # a BaseException: nothing else would catch it
        raise OSError(f"{folder.name}/{SHARDS}: {error}") from error
    except (RuntimeError, EOFError, KeyError, ValueError) as error:
        raise OSError(f"{folder.name}/{SHARDS}: {error}") from error
