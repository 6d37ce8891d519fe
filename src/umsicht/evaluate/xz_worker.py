"""Sizes of `xz` streams that share one long beginning; run as a script by `compress.py`, standard library only.

The beginning is compressed once; each ending is then compressed in a child made by `fork`, which inherits the
compressor's whole state. Where there is no `fork`, each ending costs a compression of its own. The process must hold no
threads and nothing heavy, hence a script of its own.

Input on stdin: one JSON line {"preset", "context_bytes", "ending_bytes": [...]}, then that many raw bytes.
Output: one JSON line {"context": size, "with": [sizes]} in bytes.
"""

from __future__ import annotations

import json
import lzma
import os
import sys

BLOCK = 1 << 14
"""Small on purpose: liblzma swallows whatever fits its window and compresses only as far as one call's output buffer
(32 kB in Python) has room, so larger blocks would leave the work to every child."""


def new(preset: int) -> lzma.LZMACompressor:
    return lzma.LZMACompressor(format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, preset=preset)


def size_after(compressor: lzma.LZMACompressor, so_far: int, ending: bytes) -> int:
    """Closes the stream in a child process; the parent's compressor stays as it was."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        total = so_far + len(compressor.compress(ending)) + len(compressor.flush())
        os.write(write_end, str(total).encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return int(answer)


def sizes_without_fork(preset: int, context: bytes, endings: list[bytes]) -> list[int]:
    def compressed(data: bytes) -> int:
        return len(lzma.compress(data, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, preset=preset))

    return [compressed(context), *(compressed(context + ending) for ending in endings)]


def main() -> None:
    source = sys.stdin.buffer
    order = json.loads(source.readline())
    preset, left = int(order["preset"]), int(order["context_bytes"])
    forks = hasattr(os, "fork")
    compressor, produced, kept = new(preset), 0, []
    while left:
        block = source.read(min(BLOCK, left))
        if not block:
            raise SystemExit("input ended early")
        left -= len(block)
        if forks:
            produced += len(compressor.compress(block))
        else:
            kept.append(block)
    endings = [source.read(n) for n in order["ending_bytes"]]
    if forks:
        sizes = [size_after(compressor, produced, ending) for ending in [b"", *endings]]
    else:
        sizes = sizes_without_fork(preset, b"".join(kept), endings)
    print(json.dumps({"context": sizes[0], "with": sizes[1:]}))


if __name__ == "__main__":
    main()
