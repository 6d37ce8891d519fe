"""Runs that differ only in their seed form a group; groups are what a comparison compares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umsicht.diagnose.curves import Curves
from umsicht.diagnose.logs import read_log
from umsicht.findings.errors import UserError
from umsicht.record.ids import content_id
from umsicht.record.manifest import read_manifest
from umsicht.words import t

# Settings that change what is written or kept, not what is trained.
_WITHOUT_EFFECT = (
    "name",
    "train.checkpoints",
    "train.logging",
    "train.writers",
    "evaluate",
    "plan",
    "check",
    "finetune",
)
_SEEDS = ("seed", "tokens.seed")


@dataclass(frozen=True)
class Measured:
    """One run to compare: its curves and its manifest (empty for a foreign log)."""

    name: str
    path: Path
    curves: Curves
    manifest: Mapping[str, Any]

    @property
    def own(self) -> bool:
        """Whether it is a run of our own record, whose conditions are known."""
        return bool(self.manifest)

    @property
    def seed(self) -> int | None:
        """The seed, where known."""
        seed = self.manifest.get("seed")
        return seed if isinstance(seed, int) else None

    def settings(self) -> dict[str, Any]:
        """The recipe as dotted keys, without what has no effect on training."""
        recipe = self.manifest.get("recipe")
        flat = flatten(recipe if isinstance(recipe, Mapping) else {})
        return {
            key: value
            for key, value in flat.items()
            if not any(key == prefix or key.startswith(prefix + ".") for prefix in _WITHOUT_EFFECT)
        }


@dataclass(frozen=True)
class Group:
    """Runs with the same settings but for the seed."""

    label: str
    runs: tuple[Measured, ...]

    @property
    def seeds(self) -> tuple[int | None, ...]:
        """Seeds of its runs."""
        return tuple(run.seed for run in self.runs)


def load(paths: Iterable[Path]) -> list[Measured]:
    """Read the runs to compare."""
    found = []
    for path in paths:
        manifest = (read_manifest(path) or {}) if path.is_dir() else {}
        if manifest.get("kind") != "run":
            manifest = {}
        found.append(Measured(path.name, path, read_log(path), manifest))
    return found


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` → `{"a.b": 1}`."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def group(runs: list[Measured], assigned: Mapping[str, list[str]] | None = None) -> list[Group]:
    """Groups in order of first appearance. `assigned` (label → run names) puts foreign logs, whose settings are unknown, together."""
    if assigned:
        by_name = {run.name: run for run in runs} | {str(run.path): run for run in runs}
        unknown = [name for names in assigned.values() for name in names if name not in by_name]
        if unknown:
            raise UserError(
                t("diagnose.compare.unknown_run", name=unknown[0]), fix=", ".join(run.name for run in runs)
            )
        return [Group(label, tuple(by_name[name] for name in names)) for label, names in assigned.items()]
    members: dict[str, list[Measured]] = {}
    for run in runs:
        if run.own:
            settings = {key: value for key, value in run.settings().items() if key not in _SEEDS}
            inputs = {
                k: v for k, v in dict(run.manifest.get("inputs", {})).items() if k in ("corpus", "tokenizer")
            }
            key = content_id({"settings": settings, "inputs": inputs})
        else:
            key = str(run.path)
        members.setdefault(key, []).append(run)
    return [Group(_label(number), tuple(found)) for number, found in enumerate(members.values())]


def _label(number: int) -> str:
    return f"{chr(ord('A') + number)}" if number < 26 else f"G{number + 1}"


def differences(a: Group, b: Group) -> dict[str, tuple[Any, Any]]:
    """Settings in which two groups differ, by dotted key: (value in a, value in b)."""
    if not a.runs[0].own or not b.runs[0].own:
        return {}
    one, other = a.runs[0].settings(), b.runs[0].settings()
    keys = sorted(set(one) | set(other))
    return {
        key: (one.get(key), other.get(key))
        for key in keys
        if one.get(key) != other.get(key) and key not in _SEEDS
    }
