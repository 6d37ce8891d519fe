"""What training holds in memory: the most since counting began, on the device that computes.

On a processor the system counts (`/proc/self/status`, Linux; the highest value ever elsewhere), on a GPU torch's allocator does.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

import torch

# glibc's names of two settings (malloc.h), and the most it takes for the first.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_MMAP_THRESHOLD = 32 << 20


class PeakMemory:
    """Counts from `start` on. `base_bytes` is what the process held then, memory that earlier work had freed left out."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self._device = torch.device(device)
        self.base_bytes = 0
        self.counts_afresh = False

    def start(self) -> PeakMemory:
        """Begin; returns itself."""
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
            self.base_bytes, self.counts_afresh = int(torch.cuda.memory_allocated(self._device)), True
            return self
        gc.collect()
        give_back()
        self.counts_afresh = _clear_peak()
        self.base_bytes = status_bytes("VmRSS")
        return self

    def peak_bytes(self) -> int:
        """The most that the whole process held (on a GPU: that its allocator held) since `start`."""
        if self._device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self._device))
        peak = status_bytes("VmHWM")
        if peak:
            return peak
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

    def grown_bytes(self) -> int:
        """The most that was held beyond `base_bytes`."""
        return max(0, self.peak_bytes() - self.base_bytes)


def give_back() -> None:
    """Ask the allocator to return what is free (glibc; elsewhere nothing)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_freed() -> None:
    """Ask the allocator to keep what is freed for the next step (glibc; elsewhere nothing): given back, every large tensor's pages are made anew, each step.

    Where the environment sets it, that is a person's word and stands.
    """
    if {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"} & os.environ.keys():
        return
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
        libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)


def available_bytes(device: torch.device | str) -> int | None:
    """Memory that a training could still take here: free GPU memory, or what Linux calls available, no more than the container's limit leaves."""
    device = torch.device(device)
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    found = _meminfo_available()
    limit, used = _number("/sys/fs/cgroup/memory.max"), _number("/sys/fs/cgroup/memory.current")
    if limit is not None and used is not None:
        left = limit - used + _reclaimable()
        found = left if found is None else min(found, left)
    return found


def status_bytes(name: str) -> int:
    """A line of `/proc/self/status` in bytes; 0 where there is none."""
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(name + ":")), 0)


def _clear_peak() -> bool:
    """Set the system's high-water mark to what is held now; False where the system does not allow it."""
    path = Path("/proc/self/clear_refs")
    if not path.exists():
        return False
    try:
        path.write_text("5")
    except OSError:
        return False
    return True


def _meminfo_available() -> int | None:
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return None
    return next(
        (int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("MemAvailable:")), None
    )


def _reclaimable() -> int:
    """Bytes of files that the container only keeps because nobody needed the memory yet."""
    try:
        lines = Path("/sys/fs/cgroup/memory.stat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)


def _number(path: str) -> int | None:
    try:
        text = Path(path).read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
