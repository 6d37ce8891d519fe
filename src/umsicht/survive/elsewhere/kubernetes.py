"""A plain indexed Job: one pod a machine, the project on a claim that all pods mount, pods that were evicted or saved started again for nothing.

Fields: https://kubernetes.io/docs/concepts/workloads/controllers/job/ (pod failure policy: batch/v1, stable since 1.31).
"""

from __future__ import annotations

import io
from pathlib import PurePosixPath
from typing import Any

from umsicht.findings.exits import GUARD, SAVED, USAGE
from umsicht.survive.elsewhere.job import GRACE_S, Job

CONTAINER = "train"


def render(job: Job) -> str:
    """The manifest."""
    from ruamel.yaml import YAML
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    plain = manifest(job)
    container = plain["spec"]["template"]["spec"]["containers"][0]
    # Readers of YAML 1.1 take a bare 2:4 for the number 124.
    container["command"] = [DoubleQuotedScalarString(word) for word in container["command"]]
    text = io.StringIO()
    yaml = YAML()
    yaml.width = 4096
    yaml.dump(plain, text)
    head = (
        f"# The claim {claim(job)} must exist and be mountable by all pods (ReadWriteMany where there are several);\n"
        "# the image must have umsicht installed.\n"
    )
    return head + text.getvalue()


def claim(job: Job) -> str:
    """Name of the volume claim that holds the project."""
    return f"{label(job)}-project"


def label(job: Job) -> str:
    """The job's name as Kubernetes takes names."""
    return job.name.lower().replace("_", "-").replace(".", "-").strip("-")


def manifest(job: Job) -> dict[str, Any]:
    """The Job as plain data."""
    resources: dict[str, Any] = {"cpu": str(job.cpus), "memory": f"{job.memory_gb}Gi"}
    if job.gpus:
        resources["nvidia.com/gpu"] = str(job.gpus)
    environment = [
        {"name": "OMP_NUM_THREADS", "value": str(job.threads)},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]
    container = {
        "name": CONTAINER,
        "image": job.image,
        "command": job.command("$(POD_IP)"),
        "workingDir": str(PurePosixPath(job.project).parent),
        "env": environment,
        "resources": {"requests": dict(resources), "limits": dict(resources)},
        "volumeMounts": [
            {"name": "project", "mountPath": str(PurePosixPath(job.project).parent)},
            {"name": "shared-memory", "mountPath": "/dev/shm"},
        ],
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_S,
        "containers": [container],
        "volumes": [
            {"name": "project", "persistentVolumeClaim": {"claimName": claim(job)}},
            {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        ],
        **({"nodeSelector": {"nvidia.com/gpu.product": job.gpu}} if job.gpu else {}),
    }
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {
            "action": "Ignore",
            "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [SAVED]},
        },
        {
            "action": "FailJob",
            "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [USAGE, GUARD]},
        },
    ]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": label(job), "labels": {"app": "umsicht", "run": label(job)}},
        "spec": {
            "completionMode": "Indexed",
            "completions": job.nodes,
            "parallelism": job.nodes,
            "backoffLimit": 6 * job.nodes,
            "activeDeadlineSeconds": round(job.hours * 3600),
            "podFailurePolicy": {"rules": rules},
            "template": {"metadata": {"labels": {"app": "umsicht", "run": label(job)}}, "spec": pod},
        },
    }
