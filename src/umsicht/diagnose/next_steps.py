"""What to do next: an ordered list, each item tests or changes one cause."""

from __future__ import annotations

from collections.abc import Mapping
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
# Commands that exist; {run} and {recipe} are filled in, {value} is the present setting times the factor where it is known.
COMMANDS: dict[str, str] = {
    "train-longer": "umsicht experiment new --from {run} --set train.budget.steps={double_steps}",
    "lr-up": "umsicht experiment new --from {run} --set train.optimizer.matrix_rate={rate_up}",
    "lr-down": "umsicht experiment new --from {run} --set train.optimizer.matrix_rate={rate_down}",
    "lr-decay": "umsicht experiment new --from {run} --set train.schedule.decay_share=0.4",
    "warmup-longer": "umsicht experiment new --from {run} --set train.schedule.warmup_share=0.1",
    "schedule-check": "umsicht show {run} --json",
    "capacity-up": "umsicht experiment new --from {run} --set model.d_model={double_width}",
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
    "mask-experiment": "umsicht experiment new --from {run} --set model.document_mask={mask}",
    "share-up": "",
    "skip-window": "",
    "clip": "umsicht experiment new --from {run} --set train.optimizer.clip_norm=1.0",
    "rewind": "",
    "replay-batch": "",
    "precision": "umsicht experiment new --from {run} --set train.precision=float32",
    "shuffle": "",
    "samples": "umsicht read {run}",
    "rate": "umsicht rate new {run}",
    "facts-probe": "umsicht evaluate {run}",
    "wait": "umsicht watch {run}",
    "measure-missing": "umsicht evaluate {run}",
    "add-val": "",
    "add-train": "",
}


def build(
    reason: str, causes: tuple[str, ...], run: str, *, own: bool, settings: Mapping[str, Any]
) -> tuple[NextStep, ...]:
    """The steps for a verdict, most likely cause first, none twice. Commands only for runs of our own record."""
    wanted: dict[str, str] = {}
    for action in BY_REASON.get(reason, ()):
        wanted.setdefault(action, "")
    for cause in causes:
        for action in BY_CAUSE.get(cause, ()):
            wanted.setdefault(action, cause)
    values = _values(run, settings)
    steps = []
    for action, cause in wanted.items():
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


def _values(run: str, settings: Mapping[str, Any]) -> dict[str, str]:
    values = {"run": run}
    values["recipe"] = str(settings.get("recipe") or "RECIPE.yaml")
    values["project"] = str(settings.get("project") or ".")
    rate, steps, width = settings.get("matrix_rate"), settings.get("steps"), settings.get("d_model")
    if isinstance(rate, int | float):
        values |= {"rate_up": f"{3 * rate:.3g}", "rate_down": f"{rate / 3:.3g}"}
    if isinstance(steps, int):
        values["double_steps"] = str(2 * steps)
    if isinstance(width, int):
        values["double_width"] = str(2 * width)
    if isinstance(settings.get("document_mask"), bool):
        values["mask"] = "false" if settings["document_mask"] else "true"
    return values
