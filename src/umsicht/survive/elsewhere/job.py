"""What is to run, whoever starts it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

GRACE_S = 120
"""Seconds between "your time is over" and the end: for the step in progress and its checkpoint."""


@dataclass(frozen=True)
class Job:
    """A recipe and the machines it asks for. `project` is a folder that every machine sees; `gpu` names a kind, empty: processors only."""

    name: str
    recipe: str
    project: str
    nodes: int = 1
    least_nodes: int = 1
    ranks: int = 1
    cpus: int = 4
    memory_gb: int = 16
    gpus: int = 0
    gpu: str = ""
    hours: float = 24.0
    image: str = "python:3.12-slim"
    arguments: tuple[str, ...] = ()

    def command(self, address: str = "") -> list[str]:
        """The call on every machine; with several, `address` is a shell expression for the machine's own address."""
        words = ["umsicht", "train", self.recipe, "--out", self.project]
        words += ["--nproc-per-node", str(self.ranks)]
        if self.nodes > 1:
            words += ["--nnodes", f"{self.least_nodes}:{self.nodes}"]
        return [*words, *self.arguments, *(["--address", address] if address and self.nodes > 1 else [])]

    def shell(self, address: str = "") -> str:
        """The call as a line of shell, `address` left for the shell to fill in."""
        quoted = shlex.join(self.command())
        return f'{quoted} --address "{address}"' if address and self.nodes > 1 else quoted

    @property
    def threads(self) -> int:
        """Threads of a rank, so that all ranks together have as many as there are processors."""
        return max(1, self.cpus // self.ranks)

    @property
    def clock(self) -> str:
        """The time limit as days-hh:mm:ss."""
        seconds = round(self.hours * 3600)
        days, rest = divmod(seconds, 86400)
        hours, rest = divmod(rest, 3600)
        return f"{days}-{hours:02}:{rest // 60:02}:{rest % 60:02}"
