"""What is freed is kept for the next step, unless the environment says otherwise: seen in the pages that the system has to make."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts pages as Linux does")

LOOP = """
import resource
import torch
from umsicht.train.resident import keep_freed

{call}
for _ in range(5):
    torch.ones(3_000_000).mul_(2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    torch.ones(3_000_000).mul_(2)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def pages_made(call: str, **variables: str) -> int:
    """Pages made while a tensor of 12 MB comes and goes fifty times, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", LOOP.format(call=call)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def test_a_tensor_that_comes_again_finds_its_pages() -> None:
    if os.confstr("CS_GNU_LIBC_VERSION") is None:
        pytest.skip("not glibc")
    assert pages_made("keep_freed()") < 200


def test_a_threshold_in_the_environment_stands() -> None:
    alone = pages_made("pass", MALLOC_MMAP_THRESHOLD_="32768")
    assert pages_made("keep_freed()", MALLOC_MMAP_THRESHOLD_="32768") > 0.9 * alone > 100
