"""The gate before training, and the guards that hang on the loop."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson

from umsicht.corpus import documents
from umsicht.findings import Finding, Waiver
from umsicht.guard import PreflightInputs, Report, monitors, preflight
from umsicht.guard.probes.rehearse import Trace
from umsicht.pipeline.after_stop import skipping
from umsicht.pipeline.training import Material, identity
from umsicht.pipeline.walk import Walk
from umsicht.record import Run, atomic_json, content_id, short
from umsicht.record.environment import code_version
from umsicht.record.manifest import now
from umsicht.train import Hook, Validation
from umsicht.train.budget import planned_tokens
from umsicht.words import t


def inputs_of(material: Material) -> PreflightInputs:
    """What the preflight looks at."""
    walk = material.walk
    return PreflightInputs(
        recipe=walk.recipe,
        config=material.config,
        tokenizer=material.tokenizer,
        tokens_path=material.made.tokens.path,
        source=material.source,
        model=material.model,
        planned_steps=material.planned_steps(),
        documents=lambda split: documents(material.made.corpus, "train" if split == "train" else "val"),
        root=walk.project.folder,
        start=walk.root / walk.recipe.train.start_from if walk.recipe.train.start_from else None,
        elsewhere=functools.partial(_elsewhere, material),
    )


def _elsewhere(material: Material, folder: Path, steps: int, stop: int | None) -> Trace:
    """One part of the resume rehearsal in a new process, which knows only what lies on disk."""
    walk = material.walk
    spec = folder / "elsewhere-spec.json"
    atomic_json(
        spec,
        {
            "recipe": walk.recipe.plain(),
            "project": str(walk.project.folder.resolve()),
            "root": str(walk.root.resolve()),
            "made": material.made.ids(),
            "folder": str(folder.resolve()),
            "steps": steps,
            "stop": stop,
        },
    )
    alone = {
        key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE", "UMSICHT_RUN")
    }
    done = subprocess.run(
        [sys.executable, "-m", "umsicht.pipeline.again", str(spec)],
        capture_output=True,
        text=True,
        env=alone,
        check=False,
    )
    answer = spec.with_name("elsewhere.json")
    if done.returncode or not answer.is_file():
        raise RuntimeError(f"the second process of the resume rehearsal: {done.stderr[-300:]}")
    return Trace(**orjson.loads(answer.read_bytes()))


def check(material: Material, *, quick: bool = False) -> Report:
    """Run the contracts of a recipe, in order; nothing is decided here."""
    walk = material.walk
    walk.progress.stage(t("pipeline.checking"))
    inputs = inputs_of(material)
    report = preflight(inputs, progress=walk.progress, quick=quick)
    walk.progress.close()
    return report


def gate(material: Material) -> None:
    """Let a run begin only after its contracts held for exactly this recipe, code version and data.

    A pass is kept in `artifacts/check/` and not repeated. Raises GateClosedError where a contract is broken and not waived.
    """
    walk = material.walk
    if is_rehearsal(material):
        walk.progress.note(t("pipeline.rehearsal", tokens=walk.recipe.check.rehearsal_tokens))
        return
    path = (
        walk.project.folder / "artifacts" / "check" / f"{walk.recipe.name}-{short(passed_id(material))}.json"
    )
    if path.is_file():
        passed = orjson.loads(path.read_bytes())
        walk.waivers += tuple(Waiver(one["finding"], one["because"]) for one in passed["waived"])
        walk.gate("check", (Finding.from_dict(plain) for plain in passed["findings"]))
        return
    report = check(material)
    decision = walk.gate("check", report)
    atomic_json(
        path,
        {
            "id": passed_id(material),
            "passed": now(),
            **report.to_dict(),
            "waived": [
                {"finding": finding.id, "because": waiver.because} for finding, waiver in decision.waived
            ],
        },
    )


def is_rehearsal(material: Material) -> bool:
    """A run so short that the recipe lets it begin unchecked (`check.rehearsal_tokens`); without that word none is."""
    limit, steps = material.walk.recipe.check.rehearsal_tokens, material.planned_steps()
    return limit is not None and steps is not None and planned_tokens(material.source(steps), steps) <= limit


def passed_id(material: Material) -> str:
    """What a pass holds for."""
    return content_id([identity(material), material.walk.recipe.check.plain(), code_version()])


def record_of(walk: Walk) -> dict[str, Any]:
    """Waivers and findings so far, for the manifest of the run."""
    waived = [
        {"gate": decision.gate, "finding": finding.id, "because": waiver.because}
        for decision in walk.decisions
        for finding, waiver in decision.waived
    ]
    return {"waivers": waived, "findings_before": [finding.id for finding in walk.findings]}


def hooks(material: Material, run: Run) -> list[Hook]:
    """Validation and monitors."""
    recipe = material.walk.recipe
    steps = material.planned_steps()
    watching = monitors(
        recipe.check,
        source=skipping(material.source(steps), run),
        settings=recipe.train,
        schedule_steps=steps,
        tokenizer=material.tokenizer,
    )
    return [Validation(material.data, recipe.train.validation, seq_len=recipe.model.seq_len), *watching]
