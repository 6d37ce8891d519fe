"""Run in the environment of the launching tools: `validate_elsewhere.py ENGINE FILE` ends with 0 where the tool's own check takes the file."""

from __future__ import annotations

import runpy
import sys


def kubernetes(file: str) -> None:
    """The JSON schema of Kubernetes' own API, strictly (unknown fields refused)."""
    import kubernetes_validate
    import yaml

    with open(file) as text:
        for document in yaml.safe_load_all(text):
            kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def skypilot(file: str) -> None:
    """SkyPilot's task schema and parser."""
    import sky
    import yaml
    from sky.utils import common_utils, schemas

    with open(file) as text:
        plain = yaml.safe_load(text)
    common_utils.validate_schema(plain, schemas.get_task_schema(), "the task is not valid: ")
    assert sky.Task.from_yaml(file).num_nodes == plain["num_nodes"]


def ray(file: str) -> None:
    """Ray Train's own constructors, which refuse unknown and contradictory arguments."""
    made = runpy.run_path(file, run_name="job")["trainer"]()
    assert type(made).__name__ == "TorchTrainer"


if __name__ == "__main__":
    {"kubernetes": kubernetes, "skypilot": skypilot, "ray": ray}[sys.argv[1]](sys.argv[2])
