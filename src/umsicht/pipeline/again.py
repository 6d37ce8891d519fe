"""One part of the resume rehearsal in a process of its own: `python -m umsicht.pipeline.again SPEC`.

The specification is a file: recipe, project, artifact ids, the rehearsal's folder, and how far to go. What the part saw is written beside it.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from umsicht.guard.preflight import segment
from umsicht.guard.probes.rehearse import Trace
from umsicht.pipeline.checks import inputs_of
from umsicht.pipeline.training import Made, Material
from umsicht.pipeline.walk import Walk
from umsicht.recipe import Recipe
from umsicht.record import atomic_json
from umsicht.record.project import Project

ANSWER = "elsewhere.json"


def run(spec: dict[str, Any]) -> Trace:
    """Open what the specification names and train the part."""
    walk = Walk(
        Recipe.model_validate(spec["recipe"]), Project(Path(spec["project"])), root=Path(spec["root"])
    )
    found = {kind: walk.project.store.find(kind, identity) for kind, identity in spec["made"].items()}
    material = Material(walk, Made(**found))  # type: ignore[arg-type]  # a missing one fails at its first use
    return segment(inputs_of(material), Path(spec["folder"]), int(spec["steps"]), spec["stop"])


def main() -> None:
    """Read, run, answer."""
    path = Path(sys.argv[1])
    trace = run(orjson.loads(path.read_bytes()))
    plain = {key: value for key, value in asdict(trace).items() if key != "first_gradient"}
    atomic_json(path.with_name(ANSWER), plain)


if __name__ == "__main__":
    main()
