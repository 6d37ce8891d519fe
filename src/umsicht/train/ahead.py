"""The next step's batches, made while this step is computed: a step never waits for its data unless making them takes longer than computing."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Made = TypeVar("Made")


class Ahead(Generic[Made]):
    """Calls `make(step)`, and `make(step + 1)` in a thread of its own where that step is below `last()`.

    `make` must be a function of the step alone; what is asked for out of order is made on the spot. An error in the thread is raised where its
    result is asked for.
    """

    def __init__(self, make: Callable[[int], Made], last: Callable[[], int]) -> None:
        self._make = make
        self._last = last
        self._pool: ThreadPoolExecutor | None = None
        self._next: tuple[int, Future[Made]] | None = None

    def __call__(self, step: int) -> Made:
        waiting, self._next = self._next, None
        made = waiting[1].result() if waiting and waiting[0] == step else self._make(step)
        if step + 1 < self._last():
            self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="umsicht-data")
            self._next = (step + 1, self._pool.submit(self._make, step + 1))
        return made

    def settle(self) -> None:
        """Wait until nothing is being made, so that the caller may read the same source; what was made is kept."""
        if self._next is not None:
            self._next[1].exception()

    def close(self) -> None:
        """End the thread; what it made for a step that will not come is dropped."""
        self._next = None
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
