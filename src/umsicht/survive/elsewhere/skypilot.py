"""A SkyPilot task on machines that may be taken away: restarted elsewhere, going on from the checkpoints on a volume that outlives them.

Fields: https://docs.skypilot.co/en/latest/reference/yaml-spec.html.
"""

from __future__ import annotations

import io
from pathlib import PurePosixPath
from typing import Any

from umsicht.findings.exits import SAVED
from umsicht.survive.elsewhere.job import Job


def render(job: Job) -> str:
    """The task file."""
    from ruamel.yaml import YAML
    from ruamel.yaml.scalarstring import LiteralScalarString

    plain = task(job)
    for key in ("setup", "run"):
        plain[key] = LiteralScalarString(plain[key])
    text = io.StringIO()
    yaml = YAML()
    yaml.width = 4096
    yaml.dump(plain, text)
    head = (
        f"# The volume {volume(job)} must exist (`sky volumes apply`); with several nodes it must be one that all of them mount.\n"
        "# The recipe travels with the working directory.\n"
    )
    return head + text.getvalue()


def volume(job: Job) -> str:
    """Name of the volume that holds the project."""
    return f"{job.name}-project".replace("_", "-").replace(".", "-").lower()


def task(job: Job) -> dict[str, Any]:
    """The task as plain data."""
    resources: dict[str, Any] = {
        "cpus": f"{job.cpus}+",
        "memory": f"{job.memory_gb}+",
        "use_spot": True,
        # Codes that the job itself gives for "told to stop, saved": start it again and do not count it.
        "job_recovery": {"max_restarts_on_errors": 3, "recover_on_exit_codes": [SAVED]},
    }
    if job.gpus:
        resources["accelerators"] = f"{job.gpu or 'H100'}:{job.gpus}"
    address = '$(echo "$SKYPILOT_NODE_IPS" | sed -n "$((SKYPILOT_NODE_RANK + 1))p")'
    return {
        "name": volume(job).removesuffix("-project"),
        "num_nodes": job.nodes,
        "workdir": ".",
        "resources": resources,
        "volumes": {str(PurePosixPath(job.project).parent): volume(job)},
        "envs": {"OMP_NUM_THREADS": str(job.threads)},
        "setup": "pip install umsicht\n",
        "run": job.shell(address) + "\n",
    }
