"""What a general compressor makes of the validation text: the yardstick anybody can check with a shell.

`xz -9` means LZMA2 preset 9 (64 MiB dictionary) in an .xz container with CRC64, as the command writes it; the container
costs about 60 bytes, which is why slices below some kB look worse than they are.
"""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PRESET = 9
WINDOW_BYTES = 64 << 20
"""Dictionary of LZMA preset 9: text further back than this cannot help."""


def xz_bytes(data: bytes) -> int:
    """Size in bytes that `xz -9` makes of `data`."""
    return len(lzma.compress(data, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, preset=PRESET))


def xz_extra_bytes(context: Sequence[bytes], endings: Sequence[bytes]) -> list[int]:
    """size(context + ending) - size(context) under `xz -9`, for each ending.

    The part of `context` that the window cannot hold beside the longest ending is left out at its start; use
    `fitting_context` first to choose what is kept.

    Raises RuntimeError if the compressing process fails.
    """
    if not endings:
        return []
    order = {
        "preset": PRESET,
        "context_bytes": sum(map(len, context)),
        "ending_bytes": [len(ending) for ending in endings],
    }
    worker = subprocess.Popen(
        [sys.executable, "-I", str(Path(__file__).with_name("xz_worker.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert worker.stdin is not None
    try:
        worker.stdin.write(json.dumps(order).encode() + b"\n")
        for part in [*context, *endings]:
            worker.stdin.write(part)
    except BrokenPipeError:
        pass  # the worker's own message, read below, says why it ended
    answer, errors = worker.communicate()
    if worker.returncode != 0:
        raise RuntimeError(
            f"xz worker ended with {worker.returncode}: {errors.decode(errors='replace')[-500:]}"
        )
    sizes = json.loads(answer)
    return [int(size) - int(sizes["context"]) for size in sizes["with"]]


def context_limit(endings: Sequence[bytes]) -> int:
    """Bytes of training text that fit the window together with the longest of `endings`."""
    return max(0, WINDOW_BYTES - max((len(ending) for ending in endings), default=0))
