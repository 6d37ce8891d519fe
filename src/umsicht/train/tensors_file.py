"""Tensors to a safetensors file without building the file in memory first.

The library's own writer copies every tensor and then the whole file; while a checkpoint is written that is twice the state again. The bytes are those
that the library writes: header, padding, and tensors in its order (https://huggingface.co/docs/safetensors, "Format").
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import orjson
import torch
from torch import Tensor

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write contiguous CPU tensors to `path` and sync it. Raises OSError; KeyError for a type that the format does not have."""
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name in order:
        tensor = tensors[name]
        end = offset + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    head = orjson.dumps(header)
    head += b" " * (-len(head) % 8)
    with path.open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for name in order:
            if tensors[name].numel():
                file.write(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
        file.flush()
        os.fsync(file.fileno())
