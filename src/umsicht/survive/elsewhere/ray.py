"""A Ray Train script: Ray places the workers and starts them again; each worker is one of our ranks.

Classes: https://docs.ray.io/en/latest/train/api/api.html (Ray 2.x). Ray opens the process group; the training joins it.
"""

from __future__ import annotations

from umsicht.findings.exits import SAVED
from umsicht.survive.elsewhere.job import Job

TEMPLATE = '''"""Trains {name} with Ray Train: `ray job submit --working-dir . -- python {name}.ray.py`. Every worker sees {project}."""

import ray.train
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

ARGUMENTS = {arguments!r}


def rank() -> None:
    """One worker: the same call as on a single machine. A run that was saved on request ({saved}) is started again like one that fell."""
    from umsicht.cli.main import main

    try:
        main(ARGUMENTS)
    except SystemExit as end:
        if end.code == {saved}:
            raise RuntimeError("told to stop after saving: to be started again") from None
        if end.code:
            raise RuntimeError(f"umsicht train ended with exit code {{end.code}}") from None


def trainer() -> TorchTrainer:
    """{workers} workers; a fallen one takes the others down, and all go on from the last whole checkpoint."""
    scaling = ScalingConfig(
        num_workers={workers},
        use_gpu={use_gpu},
        resources_per_worker={resources!r},
        accelerator_type={kind!r},
    )
    run = RunConfig(
        name={name!r},
        storage_path={storage!r},
        failure_config=FailureConfig(max_failures=20),
    )
    return TorchTrainer(rank, scaling_config=scaling, run_config=run)


if __name__ == "__main__":
    trainer().fit()
'''


def render(job: Job) -> str:
    """The script."""
    resources = {"CPU": job.threads, **({"GPU": 1} if job.gpus else {})}
    return TEMPLATE.format(
        name=job.name,
        project=job.project,
        arguments=["train", job.recipe, "--out", job.project, *job.arguments],
        saved=SAVED,
        workers=job.nodes * job.ranks,
        use_gpu=bool(job.gpus),
        resources=resources,
        kind=job.gpu or None,
        storage=f"{job.project}/ray",
    )
