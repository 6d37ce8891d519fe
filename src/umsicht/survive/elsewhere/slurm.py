"""An sbatch script: one launcher a node, a signal before the time is over, requeued where the run was saved.

Directives: https://slurm.schedmd.com/sbatch.html. `--signal=USR1@120` reaches the job's steps, not the batch shell: the launchers save and end with
exit code 75, srun passes the highest one on, and the script asks for another turn.
"""

from __future__ import annotations

from umsicht.findings.exits import SAVED
from umsicht.survive.elsewhere.job import GRACE_S, Job


def render(job: Job) -> str:
    """The script."""
    directives = [
        f"--job-name={job.name}",
        f"--nodes={job.nodes}" if job.least_nodes == job.nodes else f"--nodes={job.least_nodes}-{job.nodes}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={job.cpus}",
        f"--mem={job.memory_gb}G",
        *([f"--gpus-per-node={job.gpu + ':' if job.gpu else ''}{job.gpus}"] if job.gpus else []),
        f"--time={job.clock}",
        f"--signal=USR1@{GRACE_S}",
        "--requeue",
        "--open-mode=append",
        f"--output={job.name}-%j.out",
    ]
    lines = ["#!/bin/bash", *(f"#SBATCH {directive}" for directive in directives)]
    address = "$(hostname -i | cut -d' ' -f1)"
    call = job.shell(address)
    task = "srun --kill-on-bad-exit=0 "
    task += f"bash -c '{_inside(call)}'" if job.nodes > 1 else call
    lines += [
        "",
        "# The project's folder must be seen by every node: its artifacts, checkpoints and the hosts' cards lie there.",
        f"export OMP_NUM_THREADS={job.threads}",
        "# srun does not take over --cpus-per-task by itself (since Slurm 22.05): without this line each launcher gets one processor.",
        "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK",
        task,
        "code=$?",
        "",
        f"# {SAVED}: told to stop, saved, resumable. The same script goes on where it stopped.",
        f'if [ "$code" -eq {SAVED} ]; then',
        '  scontrol requeue "$SLURM_JOB_ID"',
        "fi",
        'exit "$code"',
    ]
    return "\n".join(lines) + "\n"


def _inside(call: str) -> str:
    """A line of shell inside single quotes."""
    return call.replace("'", "'\\''")
