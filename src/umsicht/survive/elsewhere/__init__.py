"""Job files for engines that start the launcher on other machines: Slurm, Kubernetes, SkyPilot, Ray."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from umsicht.survive.elsewhere import kubernetes, ray, skypilot, slurm
from umsicht.survive.elsewhere.job import Job

Engine = Literal["slurm", "kubernetes", "skypilot", "ray"]


@dataclass(frozen=True)
class Target:
    """How an engine's file is written, called and handed over."""

    render: Callable[[Job], str]
    suffix: str
    submit: str


TARGETS: dict[Engine, Target] = {
    "slurm": Target(slurm.render, ".slurm.sh", "sbatch {file}"),
    "kubernetes": Target(kubernetes.render, ".kubernetes.yaml", "kubectl apply -f {file}"),
    "skypilot": Target(skypilot.render, ".skypilot.yaml", "sky jobs launch {file}"),
    "ray": Target(ray.render, ".ray.py", "ray job submit --working-dir . -- python {file}"),
}

__all__ = ["TARGETS", "Engine", "Job", "Target"]
