"""One writer a folder: a lock that the kernel lets go of when its holder dies, so that none is ever stale by guesswork.

The file stays where it is and says who holds it, or who held it and never let go. Where a file system knows no locks (`flock` unsupported),
nothing is locked: refusing to train there would be worse.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from umsicht.record.manifest import now

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # absent there

_UNSUPPORTED = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


@dataclass(frozen=True)
class Holder:
    """Who holds a lock: machine, process, since when (UTC)."""

    host: str
    pid: int
    since: str

    @classmethod
    def me(cls) -> Holder:
        """This process, now."""
        return cls(socket.gethostname(), os.getpid(), now())

    @classmethod
    def parse(cls, data: bytes) -> Holder | None:
        """From the lock file; None where nobody is named."""
        try:
            plain: dict[str, Any] = orjson.loads(data)
            return cls(str(plain["host"]), int(plain["pid"]), str(plain["since"]))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            return None


class LockedError(Exception):
    """Somebody else holds the lock; `holder` says who, where the file tells."""

    def __init__(self, path: Path, holder: Holder | None) -> None:
        super().__init__(f"{path} is locked")
        self.path = path
        self.holder = holder


class FolderLock:
    """An exclusive lock on `path` (a file, made where it is missing). Use as a context manager, or `take` and `release`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stale: Holder | None = None
        """Who held the lock before and died without letting go."""
        self._handle: int | None = None

    def take(self) -> Self:
        """Take the lock. Raises LockedError where a living process holds it, OSError where the folder cannot be written."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._lock(handle)
            self.stale = Holder.parse(os.pread(handle, 4096, 0))
            self._write(handle, orjson.dumps(asdict(Holder.me())))
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle
        return self

    def release(self) -> None:
        """Let go; the file stays, empty."""
        if self._handle is None:
            return
        with suppress(OSError):
            self._write(self._handle, b"")
        if fcntl is not None:
            # Not only closed: a child that is just being started still holds a copy of the descriptor.
            with suppress(OSError):
                fcntl.flock(self._handle, fcntl.LOCK_UN)
        os.close(self._handle)
        self._handle = None

    def _lock(self, handle: int) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(self.path, Holder.parse(os.pread(handle, 4096, 0))) from None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise

    @staticmethod
    def _write(handle: int, data: bytes) -> None:
        os.ftruncate(handle, 0)
        os.pwrite(handle, data, 0)

    def __enter__(self) -> Self:
        return self.take()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


@contextmanager
def waiting(
    lock: FolderLock, every_s: float = 1.0, told: Callable[[Holder | None], None] | None = None
) -> Iterator[FolderLock]:
    """Hold `lock` in the block, waiting for it as long as another holds it; `told` hears once who that is."""
    while True:
        try:
            lock.take()
            break
        except LockedError as error:
            if told is not None:
                told(error.holder)
                told = None
            time.sleep(every_s)
    try:
        yield lock
    finally:
        lock.release()
