"""Who does the work. This is the only file that knows Dask; everything else hands over pure functions and small picklable tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from umsicht.findings import UserError
from umsicht.recipe.corpus import EngineSettings
from umsicht.words import t

SERIAL_BELOW_BYTES = 200_000_000
START_TIMEOUT_S = 30
AHEAD = 4
"""Tasks handed over for each worker."""
AHEAD_LEAST = 64

Task = TypeVar("Task")
Result = TypeVar("Result")


class Engine(Protocol):
    """Runs one function over many tasks. Results come in any order, each with the number of its task."""

    name: str
    workers: int

    def run(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[tuple[int, Result]]:
        """Yield `(i, function(tasks[i]))` as they get ready. The first failure is raised; the rest is given up."""


def share_of(memory_bytes: int, workers: int) -> int:
    """What one of several tasks at work may hold of the memory for data: a quarter of its worker's, for what it reads is mapped beside it."""
    return max(memory_bytes // (4 * max(workers, 1)), 1)


class Serial:
    """Everything in this process, in order: for small inputs and for debugging."""

    name = "serial"
    workers = 1

    def run(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[tuple[int, Result]]:
        """One task after the other."""
        for number, task in enumerate(tasks):
            yield number, function(task)


class Pool:
    """Tasks on an executor of the shape of `concurrent.futures`."""

    def __init__(self, executor: Executor, name: str, workers: int) -> None:
        self.name = name
        self.workers = workers
        self._executor = executor

    def run(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[tuple[int, Result]]:
        """Whichever is ready first comes first. A scheduler holds every task that it was handed, so it gets a few for each worker at a time."""
        left = enumerate(tasks)
        running: dict[Future[Result], int] = {}
        try:
            while True:
                for number, task in islice(left, max(AHEAD * self.workers, AHEAD_LEAST) - len(running)):
                    running[self._executor.submit(_Tidy(function), task)] = number
                if not running:
                    break
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        finally:
            for future in running:
                future.cancel()
            give_back()


@dataclass(frozen=True)
class _Tidy(Generic[Task, Result]):
    """A function after which its process gives back what it no longer needs."""

    function: Callable[[Task], Result]

    def __call__(self, task: Task) -> Result:
        try:
            return self.function(task)
        finally:
            give_back()


def give_back() -> None:
    """Return free memory to the system: Arrow's pool keeps what it freed, and so does the C library behind the system's pool."""
    pa.default_memory_pool().release_unused()
    pa.system_memory_pool().release_unused()


@contextmanager
def open_engine(settings: EngineSettings, input_bytes: int) -> Iterator[Engine]:
    """The engine that the settings ask for. Raises UserError where a scheduler cannot be reached."""
    chosen = settings.executor
    if settings.address:
        chosen = "dask"
    if chosen == "auto":
        cores = settings.workers or cpu_count()
        chosen = "serial" if input_bytes < SERIAL_BELOW_BYTES or cores < 2 else "dask"
    if chosen == "serial":
        yield Serial()
    else:
        with _dask(settings) as engine:
            yield engine


def cpu_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _dask(settings: EngineSettings) -> Iterator[Engine]:
    import dask
    import distributed

    # distributed has no type hints; Any keeps that at this door.
    client_of: Any = distributed.Client
    cluster_of: Any = distributed.LocalCluster

    quiet: dict[str, Any] = {
        "distributed.worker.memory.terminate": False,
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.target": False,
        "distributed.scheduler.allowed-failures": 10,
        # Nobody looks at a profile of these workers, and it grows for an hour.
        "distributed.worker.profile.enabled": False,
    }
    with dask.config.set(quiet):
        if settings.address:
            try:
                client = client_of(settings.address, timeout=START_TIMEOUT_S)
            except (OSError, TimeoutError) as error:
                raise UserError(
                    t("corpus.address.what", address=settings.address),
                    where="corpus.engine.address",
                    why=str(error).split("\n")[0],
                    fix=t("corpus.address.fix"),
                ) from error
            with client:
                workers = len(client.scheduler_info(n_workers=-1)["workers"])
                yield Pool(client.get_executor(retries=3, pure=False), "dask", workers)
            return
        count = settings.workers or cpu_count()
        with (
            cluster_of(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                # A scheduler always opens a page for its health, on port 8787 of every interface where none is named.
                scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
                memory_limit=0,
                silence_logs=40,
            ) as cluster,
            client_of(cluster) as client,
        ):
            yield Pool(client.get_executor(retries=3, pure=False), "dask", count)
