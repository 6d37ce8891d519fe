"""What to do next: an ordered list, each item tests or changes one cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from umsicht.diagnose.model import NextStep
from umsicht.words import t

# cause → actions in order. An action is a check (a command that only looks) or an experiment (one setting of the recipe changed).
BY_CAUSE: dict[str, tuple[str, ...]] = {
    "too-little-training": ("train-longer",),
    "lr-too-small": ("lr-up",),
    "lr-too-high": ("lr-down", "warmup-longer"),
    "lr-unsuitable": ("lr-up", "lr-down"),
    "lr-too-high-late": ("lr-decay",),
    "lr-ended": ("schedule-check",),
    "capacity": ("capacity-up",),
    "updates-lost": ("check-overfit-batch", "check-wiring"),
    "frozen-parameters": ("check-wiring",),
    "val-cached": ("evaluate-again",),
    "targets-wrong": ("check-targets", "check-overfit-batch"),
    "wrong-loss-scale": ("check-targets",),
    "future-leak": ("check-causal",),
    "target-shift": ("check-targets",),
    "val-in-train": ("contamination",),
    "easy-target": ("read-batch",),
    "initialised-from-checkpoint": ("lineage",),
    "repeated-data": ("ledger-repeats", "more-data"),
    "distribution-difference": ("domains",),
    "context-handling": ("mask-experiment",),
    "slice-repeats": ("ledger-repeats",),
    "slice-share-too-small": ("share-up",),
    "mix-changed": ("ledger-order",),
    "data-changed": ("ledger-order", "read-batch"),
    "bad-rows": ("read-batch", "skip-window"),
    "batch-composition": ("ledger-order",),
    "replayed-data": ("ledger-order",),
    "easier-data": ("read-batch",),
    "padding-counted": ("check-active-targets",),
    "leak-from-here": ("check-causal",),
    "resume-replays": ("check-resume",),
    "resume-state": ("check-resume",),
    "no-clipping": ("clip",),
    "instability": ("rewind",),
    "nonfinite-data": ("replay-batch",),
    "precision": ("precision",),
    "hardware": ("replay-batch",),
    "bad-initialisation": ("check-init",),
    "data-exhausted": ("more-data",),
    "sorted-data": ("shuffle",),
    "same-order": ("shuffle",),
    "memorised-epoch": ("ledger-repeats",),
    "loss-summed": ("check-targets",),
    "perplexity": ("add-val",),
    "val-masked": ("evaluate-again",),
    "val-text-changed": ("evaluate-again",),
    "val-procedure-changed": ("evaluate-again",),
}
BY_REASON: dict[str, tuple[str, ...]] = {
    "both-fall": ("samples", "rate", "facts-probe"),
    "few-points": ("wait",),
    "early-in-plan": ("wait",),
    "holes": ("measure-missing",),
    "no-val": ("add-val",),
    "no-train": ("add-train",),
    "no-curves": ("add-train",),
    "no-rule": ("train-longer",),
}
# Commands that exist; {run}, {recipe} and {project} are filled in, and for an experiment the one setting it changes (see `changes`).
COMMANDS: dict[str, str] = {
    "train-longer": "umsicht experiment new --from {run} --set {train-longer}",
    "lr-up": "umsicht experiment new --from {run} --set {lr-up}",
    "lr-down": "umsicht experiment new --from {run} --set {lr-down}",
    "lr-decay": "umsicht experiment new --from {run} --set {lr-decay}",
    "warmup-longer": "umsicht experiment new --from {run} --set {warmup-longer}",
    "schedule-check": "umsicht show {run} --json",
    "capacity-up": "umsicht experiment new --from {run} --set {capacity-up}",
    "check-overfit-batch": "umsicht check {recipe}",
    "check-wiring": "umsicht check {recipe}",
    "check-targets": "umsicht check {recipe}",
    "check-causal": "umsicht check {recipe}",
    "check-active-targets": "umsicht check {recipe}",
    "check-init": "umsicht check {recipe}",
    "check-resume": "umsicht check {recipe}",
    "evaluate-again": "umsicht evaluate {run}",
    "contamination": "umsicht corpus report {project}",
    "read-batch": "umsicht check {recipe} --show",
    "lineage": "umsicht lineage {run}",
    "ledger-repeats": "umsicht corpus report {project}",
    "ledger-order": "umsicht corpus report {project}",
    "more-data": "",
    "domains": "umsicht evaluate {run}",
    "mask-experiment": "umsicht experiment new --from {run} --set {mask-experiment}",
    "share-up": "",
    "skip-window": "",
    "clip": "umsicht experiment new --from {run} --set {clip}",
    "rewind": "",
    "replay-batch": "",
    "precision": "umsicht experiment new --from {run} --set {precision}",
    "shuffle": "",
    "samples": "umsicht read {run}",
    "rate": "umsicht rate new {run}",
    "facts-probe": "umsicht evaluate {run}",
    "wait": "umsicht watch {run}",
    "measure-missing": "umsicht evaluate {run}",
    "add-val": "",
    "add-train": "",
}


# What is said beside the verdict points somewhere too.
BY_ALSO: dict[str, tuple[str, ...]] = {
    "above-prediction": ("lr-unsuitable", "too-little-training"),
    "gap-repeats": ("repeated-data",),
    "gap-growing": ("repeated-data",),
    "slice-rises": ("slice-repeats", "slice-share-too-small"),
    "spikes-lost": ("bad-rows",),
    "still-falling": ("too-little-training",),
}


def build(
    reason: str,
    causes: tuple[str, ...],
    run: str,
    *,
    own: bool,
    settings: Mapping[str, Any],
    also: Iterable[str] = (),
) -> tuple[NextStep, ...]:
    """The steps for a verdict, most likely cause first, none twice; then those for what was said beside it (ids of `also`).

    Commands only for runs of our own record. An experiment that would change nothing (the setting has that value) is left out.
    """
    wanted: dict[str, str] = {}
    for action in BY_REASON.get(reason, ()):
        wanted.setdefault(action, "")
    for cause in (*causes, *(cause for name in also for cause in BY_ALSO.get(name, ()))):
        for action in BY_CAUSE.get(cause, ()):
            wanted.setdefault(action, cause)
    planned = changes(settings) if own else {}
    values = {
        "run": run,
        "recipe": str(settings.get("recipe") or "RECIPE.yaml"),
        "project": str(settings.get("project") or "."),
        **{action: change for action, change in planned.items() if change},
    }
    steps = []
    for action, cause in wanted.items():
        if planned.get(action) == "":
            continue
        command = _fill(COMMANDS.get(action, ""), values) if own else ""
        reason_text = t(f"diagnose.cause.{cause}") if cause else t(f"diagnose.why.{action}")
        steps.append(NextStep(action, command, t(f"diagnose.do.{action}"), reason_text))
    return tuple(steps)


def _fill(command: str, values: Mapping[str, str]) -> str:
    """The command, or nothing where a value it needs is not known."""
    try:
        return command.format(**values)
    except KeyError:
        return ""


def changes(settings: Mapping[str, Any]) -> dict[str, str]:
    """The one setting each experiment changes, as `key=value`; empty where it has that value already, absent where the present one is not known."""
    found: dict[str, str] = {}
    rate, width = settings.get("matrix_rate"), settings.get("d_model")
    if isinstance(rate, int | float):
        found["lr-up"] = f"train.optimizer.matrix_rate={3 * rate:.3g}"
        found["lr-down"] = f"train.optimizer.matrix_rate={rate / 3:.3g}"
    if isinstance(width, int):
        found["capacity-up"] = f"model.d_model={2 * width}"
    budget = settings.get("budget")
    for key, value in budget.items() if isinstance(budget, Mapping) else ():
        if isinstance(value, int | float):
            found["train-longer"] = (
                f"train.budget.{key}={2 * value:.0f}"
                if 2 * value == int(2 * value)
                else f"train.budget.{key}={2 * value:g}"
            )
    if isinstance(settings.get("document_mask"), bool):
        found["mask-experiment"] = f"train.document_mask={str(not settings['document_mask']).lower()}"
    decay, warmup = settings.get("decay_share"), settings.get("warmup_share")
    if isinstance(decay, int | float):
        found["lr-decay"] = f"train.schedule.decay_share={0.4 if decay < 0.3 else 0.7}" if decay < 0.7 else ""
    if isinstance(warmup, int | float):
        found["warmup-longer"] = f"train.schedule.warmup_share={max(0.1, 2 * warmup):.3g}"
    if "clip_norm" in settings:
        clip = settings["clip_norm"]
        found["clip"] = f"train.optimizer.clip_norm={clip / 4 if isinstance(clip, int | float) else 1.0:.3g}"
    if settings.get("precision"):
        found["precision"] = "" if settings["precision"] == "float32" else "train.precision=float32"
    return found
