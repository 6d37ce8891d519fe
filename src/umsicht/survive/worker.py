"""What a rank does for its supervisor: beat, leave a stack when asked, say why it fell, and never outlive the launcher."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from umsicht.record import atomic_json
from umsicht.survive import pulse

RUN_VARIABLE = "UMSICHT_RUN"
ERROR_VARIABLE = "UMSICHT_RANK_ERROR"
STACK_VARIABLE = "UMSICHT_RANK_STACK"
LAUNCHER_VARIABLE = "UMSICHT_LAUNCHER"
STACK_SIGNAL = getattr(signal, "SIGUSR2", None)
_PR_SET_PDEATHSIG = 1


def supervised_run() -> Path | None:
    """The run folder this process was started for by a supervisor; None in a process of its own."""
    folder = os.environ.get(RUN_VARIABLE, "")
    return Path(folder) if folder else None


@contextmanager
def attended() -> Iterator[None]:
    """Run a rank's work: heartbeat, stacks, and the reason of its fall in the file its supervisor reads."""
    _die_with_the_launcher()
    _leave_stacks()
    pulse.start()
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        _leave_reason(error)
        raise


def _die_with_the_launcher() -> None:
    """A rank without launcher would write into a folder that the next launcher believes to be its own."""
    launcher = os.environ.get(LAUNCHER_VARIABLE, "")
    if not launcher.isdigit():
        return
    if sys.platform == "linux":
        with suppress(OSError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(
        target=_watch_parent, args=(int(launcher),), name="umsicht-launcher", daemon=True
    ).start()


def _watch_parent(launcher: int) -> None:
    while os.getppid() == launcher:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def _leave_stacks() -> None:
    path = os.environ.get(STACK_VARIABLE, "")
    if not path or STACK_SIGNAL is None:
        return
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    faulthandler.enable(file, all_threads=True)
    faulthandler.register(STACK_SIGNAL, file, all_threads=True)


def _leave_reason(error: BaseException) -> None:
    path = os.environ.get(ERROR_VARIABLE, "")
    if path:
        with suppress(OSError):
            atomic_json(
                path,
                {
                    "type": type(error).__name__,
                    "message": str(error),
                    "traceback": traceback.format_exc(),
                },
            )
