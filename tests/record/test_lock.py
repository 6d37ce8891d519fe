"""The lock of a folder: one living holder at a time; a dead one is named and its lock taken over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from umsicht.record.lock import FolderLock, LockedError

HOLD = """
import sys, time
from pathlib import Path
from umsicht.record.lock import FolderLock
FolderLock(Path(sys.argv[1])).take()
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_holder_is_refused_and_told_who_holds_it(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(LockedError) as error:
        FolderLock(tmp_path / "lock").take()
    assert error.value.holder is not None and error.value.holder.pid == holder.pid


def test_the_lock_of_a_killed_holder_is_taken_over_and_named(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with FolderLock(tmp_path / "lock") as lock:
        assert lock.stale is not None and lock.stale.pid == holder.pid


def test_a_lock_that_was_let_go_leaves_nobody_named(tmp_path: Path) -> None:
    with FolderLock(tmp_path / "lock") as first:
        assert first.stale is None
        assert str(os.getpid()) in (tmp_path / "lock").read_text()
    with FolderLock(tmp_path / "lock") as second:
        assert second.stale is None


def test_children_do_not_inherit_the_lock(tmp_path: Path) -> None:
    with FolderLock(tmp_path / "lock"):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"], close_fds=False)
    try:
        with FolderLock(tmp_path / "lock"):
            pass
    finally:
        child.kill()
        child.wait()
