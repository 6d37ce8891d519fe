"""Saved states and where everything came from: tree, hashes, and what a resume would find."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from umsicht.dashboard.context import entry_of, facts_of, lang_of
from umsicht.dashboard.facts import Checkpoint, RunFacts, load_json, mapping
from umsicht.dashboard.pages.live import run_page
from umsicht.dashboard.svg import tree
from umsicht.words import t

SURVIVAL = ("starts", "restarts", "steps_executed", "steps_lost", "useful_share", "mttr_s", "goodput")
STATES = (("model", "model.safetensors"), ("optimizer", "optimizer.safetensors"), ("state", "state.json"))


def checkpoints(request: Request) -> Response:
    """The page."""
    facts, lang = facts_of(entry_of(request)), lang_of(request)
    return run_page(
        request,
        "checkpoints.html",
        "checkpoints",
        lineage=tree(with_ancestors(facts), title=t("dashboard.report.lineage", lang=lang)),
        checkpoints=[described(item) for item in reversed(facts.checkpoints)],
        rehearsed=resume_rehearsed(facts),
        folder=facts.folder.name,
        inputs=list(mapping(facts.manifest.get("inputs")).items()),
        survival=survival(facts),
    )


def survival(facts: RunFacts) -> list[tuple[str, Any]]:
    """What faults cost a supervised run, from `survival.json`: (figure, value) of those that are known; empty where nobody supervised."""
    sums = load_json(facts.folder / "survival.json") or {}
    return [(name, sums[name]) for name in SURVIVAL if isinstance(sums.get(name), (int, float))]


def with_ancestors(facts: RunFacts) -> dict[str, Any]:
    """The lineage, with the run that this one began from (fine-tuning, experiments) as one more parent."""
    root = facts.lineage()
    parent = facts.manifest.get("parent") or facts.manifest.get("base_run")
    if parent:
        about = parent if isinstance(parent, dict) else {"run": parent}
        name = str(about.get("run") or about.get("name") or "?")
        parents = [
            *root.get("parents", ()),
            {"kind": "run", "name": name, "id": about.get("id", ""), "missing": False, "parents": []},
        ]
        root = {**root, "parents": parents}
    return root


def described(item: Checkpoint) -> dict[str, Any]:
    """A table row; `lacks` names what a resume needs and the folder has not."""
    files = mapping(item.manifest.get("files"))
    return {
        "name": item.name,
        "step": item.step,
        "whole": item.whole,
        "bytes": item.bytes,
        "hash": str(mapping(files.get("model.safetensors")).get("sha256") or "")[:16],
        "lacks": [role for role, name in STATES if name not in files] if item.whole else [],
        "created": item.manifest.get("created"),
    }


def resume_rehearsed(facts: RunFacts) -> str:
    """`passed`, `failed`, or an empty string where resuming was not rehearsed before this run."""
    known = mapping(facts.manifest.get("checks"))
    for name, outcome in {**known, **mapping(known.get("ran"))}.items():
        if "resume" in str(name).lower():
            passed = outcome in (True, "passed", "ok") or (
                isinstance(outcome, dict) and outcome.get("passed") is True
            )
            return "passed" if passed else "failed"
    return (
        "failed"
        if any(str(item.get("id", "")).startswith("RESUME-STATE/") for item in facts.findings)
        else ""
    )


ROUTES = [Route("/run/{run}/checkpoints", checkpoints)]
