"""One call to supervise a run, on this machine alone or as one of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from umsicht.survive import hosts as network
from umsicht.survive.cluster import ClusterSupervisor, Size
from umsicht.survive.supervisor import Conditions, Supervisor


def supervise(
    command: Sequence[str],
    run_folder: Path,
    *,
    ranks: int,
    max_restarts: int,
    step_timeout_s: float,
    hosts: tuple[int, int] | None = None,
    address: str = "",
    say: Callable[[str], None],
) -> int:
    """Run `command` in `ranks` processes until the run has ended; its exit code.

    `hosts` (least, most): as many machines that see `run_folder` start the same call; `address` is where they reach this one.
    """
    alone = hosts is None
    conditions = Conditions(
        ranks=ranks,
        max_restarts=max_restarts,
        step_timeout_s=step_timeout_s,
        address="127.0.0.1" if alone else address or network.own_address(),
    )
    if hosts is None:
        return Supervisor(command, run_folder, conditions, say=say).run()
    return ClusterSupervisor(command, run_folder, conditions, Size(*hosts), say=say).run()
