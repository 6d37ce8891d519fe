"""A resumed run must be the run that was begun: settings that change its numbers may not change under it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from umsicht.findings import UserError
from umsicht.recipe.train import TrainSettings
from umsicht.record import Run
from umsicht.words import t

# These change what is written or where, never a weight.
SAFE = ("checkpoint", "log_every", "writers")


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """(dotted key, old value, new value) of every setting that differs."""
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from differences(before, after, f"{prefix}{key}.")
        elif before != after:
            yield f"{prefix}{key}", before, after


def is_safe(key: str) -> bool:
    """True for settings that may change on resume."""
    return any(key == safe or key.startswith(f"{safe}.") for safe in SAFE)


def check_unchanged(run: Run, settings: TrainSettings, seed: int) -> None:
    """Record the settings of a fresh run; on resume raise UserError with every difference that is not declared safe."""
    now = {**settings.plain(), "seed": seed}
    before = run.manifest.get("train_settings")
    if before is None:
        run.update_manifest(train_settings=now)
        return
    unsafe = [(k, a, b) for k, a, b in differences(before, now) if not is_safe(k)]
    if unsafe:
        shown = "; ".join(f"train.{key}: {old!r} → {new!r}" for key, old, new in unsafe[:6])
        raise UserError(
            t("train.changed", count=len(unsafe)),
            where=shown,
            why=t("train.changed_why"),
            fix=t("train.changed_fix"),
        )
    if before != now:
        run.update_manifest(train_settings=now)
