"""Seconds that this process spends in exchanges with others: what is left of a step is its own work.

On a processor a collective returns when it is done. On a GPU it returns at once; there the figure is the time the host waited.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from umsicht.survive import pulse

_communicated_s = 0.0


@contextmanager
def communicating() -> Iterator[None]:
    """Everything inside is an exchange."""
    global _communicated_s
    before = pulse.at("communicate")
    start = time.perf_counter()
    try:
        yield
    finally:
        _communicated_s += time.perf_counter() - start
        pulse.at(before)


def communicated_s() -> float:
    """Seconds in exchanges since the process began."""
    return _communicated_s
