"""Checkpoints in the envelope: a folder per step, manifest last with the digest of every file, verified before it is trusted.

checkpoints/step-00001000/
    model.safetensors, config.json    the weights, loadable by themselves
    optimizer.safetensors             state keyed by parameter name
    state.json                        step, tokens, generators, hooks, best values, early stopping
    manifest.json                     written last; a folder without it does not exist
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson
from safetensors import SafetensorError
from safetensors.torch import load as load_bytes
from torch import Tensor, nn

from umsicht.findings import Finding, UserError
from umsicht.model.shards import has_shards, read_shards
from umsicht.record import Run, atomic_folder, atomic_json
from umsicht.record.files import sweep_temporaries
from umsicht.record.manifest import MANIFEST, Damage, read_manifest, verify, write_manifest
from umsicht.train.tensors_file import write_tensors
from umsicht.words import t

FORMAT = 1
KIND = "checkpoint"
MODEL, CONFIG, OPTIMIZER, STATE = "model.safetensors", "config.json", "optimizer.safetensors", "state.json"
_FOLDER = re.compile(r"^step-(\d{8,})$")


@dataclass
class Snapshot:
    """Everything a run needs to go on as if it had never stopped. Tensors are copies: training may go on while they are written."""

    step: int
    tokens: int
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Any]
    config: dict[str, Any] | None = None
    metrics: dict[str, float] = field(default_factory=dict)


def snapshot_of(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous copies on the CPU; a tensor known by two names (tied weights) is kept under the first."""
    seen: dict[tuple[int, tuple[int, ...]], str] = {}
    copies = {}
    for name, tensor in tensors.items():
        key = (tensor.data_ptr(), tuple(tensor.shape))
        if tensor.numel() and key in seen:
            continue
        seen[key] = name
        copies[name] = tensor.detach().to("cpu", copy=True).contiguous()
    return copies


def folder_name(step: int) -> str:
    """`step-00001000`."""
    return f"step-{step:08d}"


def save(run: Run, snapshot: Snapshot) -> Path:
    """Write a checkpoint. Whole or absent; an older one of the same step gives way only to the whole new one. Raises OSError."""
    path = run.checkpoints / folder_name(snapshot.step)
    with atomic_folder(path) as folder:
        write_tensors(folder / MODEL, snapshot.model, {"format": "pt"})
        if snapshot.config is not None:
            atomic_json(folder / CONFIG, snapshot.config)
        write_tensors(folder / OPTIMIZER, snapshot.optimizer)
        atomic_json(folder / STATE, snapshot.state)
        head = {
            "kind": KIND,
            "format": FORMAT,
            "run": run.name,
            "step": snapshot.step,
            "tokens": snapshot.tokens,
            "metrics": snapshot.metrics,
        }
        write_manifest(folder, head)
    return path


@dataclass(frozen=True)
class Listed:
    """A checkpoint that has its manifest (its content not yet verified)."""

    path: Path
    step: int
    metrics: Mapping[str, float]


def listed(run: Run) -> list[Listed]:
    """Checkpoints with a manifest, oldest first; half-written ones do not exist."""
    found = []
    if not run.checkpoints.is_dir():
        return []
    for path in run.checkpoints.iterdir():
        match = _FOLDER.match(path.name)
        manifest = read_manifest(path) if match else None
        if match and manifest and manifest.get("kind") == KIND:
            found.append(Listed(path, int(match[1]), manifest.get("metrics", {})))
    return sorted(found, key=lambda c: c.step)


def _with_manifest(run: Run) -> list[Listed]:
    """As `listed`, and those too whose manifest is there but cannot be read: damage is named, a half-written folder is not."""
    readable = {c.path: c for c in listed(run)}
    found = [
        readable.get(path, Listed(path, int(match[1]), {}))
        for path in (run.checkpoints.iterdir() if run.checkpoints.is_dir() else ())
        if (match := _FOLDER.match(path.name)) and (path / MANIFEST).is_file()
    ]
    return sorted(found, key=lambda c: c.step)


def is_checkpoint(path: Path) -> bool:
    """True for a folder whose manifest says that it is one."""
    manifest = read_manifest(path)
    return manifest is not None and manifest.get("kind") == KIND


def find_latest(run: Run) -> tuple[Path | None, list[Finding]]:
    """The newest checkpoint whose every byte is what its manifest says, and a finding for each newer one that is not."""
    findings: list[Finding] = []
    for candidate in reversed(_with_manifest(run)):
        damage = verify(candidate.path)
        if not damage and is_checkpoint(candidate.path):
            return candidate.path, findings
        damage = damage or [Damage(MANIFEST, "kind")]
        findings.append(
            Finding(
                "CHECKPOINT/damaged",
                "warn",
                "train",
                f"{candidate.path.name}/{damage[0].path}",
                {
                    "step": candidate.step,
                    "file": damage[0].path,
                    "problem": damage[0].problem,
                    "files": len(damage),
                },
            )
        )
    return None, findings


def latest(run: Run) -> Path | None:
    """The newest verified checkpoint, or None."""
    return find_latest(run)[0]


def best(run: Run, metric: str, direction: Literal["down", "up"] = "down") -> Path | None:
    """The verified checkpoint with the best value of `metric`; checkpoints without that figure do not count."""
    scored = [c for c in listed(run) if isinstance(c.metrics.get(metric), int | float)]
    scored.sort(key=lambda c: c.metrics[metric], reverse=direction == "up")
    return next((c.path for c in scored if not verify(c.path)), None)


@dataclass
class Loaded:
    """A checkpoint read back."""

    path: Path
    step: int
    tokens: int
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Any]


def load(path: Path | str, *, verified: bool = True, with_tensors: bool = True) -> Loaded:
    """Read a checkpoint, of one process or of many. Raises UserError where it is missing, damaged, or of a format this version does not read.

    Without `with_tensors` only the small state is read: ranks that hold parts fill those in place.
    """
    path = Path(path)
    manifest = read_manifest(path)
    if manifest is None or manifest.get("kind") != KIND:
        raise UserError(t("train.no_checkpoint", path=path), fix=t("train.no_checkpoint_fix"))
    if manifest.get("format") != FORMAT:
        raise UserError(
            t("train.checkpoint_format", found=manifest.get("format"), reads=FORMAT),
            where=str(path),
            fix=t("train.checkpoint_format_fix"),
        )
    if verified and (damage := verify(path)):
        raise UserError(
            t("train.checkpoint_damaged", file=damage[0].path, problem=damage[0].problem),
            where=str(path),
            why=t("train.checkpoint_damaged_why"),
            fix=t("train.checkpoint_damaged_fix"),
        )
    try:
        state = orjson.loads((path / STATE).read_bytes())
        model, optimizer = _tensors(path) if with_tensors else ({}, {})
    except (OSError, SafetensorError, orjson.JSONDecodeError) as error:
        raise UserError(
            t("train.checkpoint_damaged", file=path.name, problem=error),
            where=str(path),
            fix=t("train.checkpoint_damaged_fix"),
        ) from error
    return Loaded(path, int(manifest["step"]), int(manifest["tokens"]), model, optimizer, state)


def _tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights and optimizer state, whole."""
    if has_shards(path):
        return read_shards(path, "model/"), read_shards(path, "optimizer/")
    return load_bytes((path / MODEL).read_bytes()), load_bytes((path / OPTIMIZER).read_bytes())


def restore_model(model: nn.Module, tensors: Mapping[str, Tensor], where: str = "") -> None:
    """Copy saved weights into `model`: every weight and none left over, else UserError with the model unchanged."""
    own = model.state_dict()
    first: dict[int, str] = {}
    aliases = {}
    for name, tensor in own.items():
        aliases[name] = first.setdefault(tensor.data_ptr(), name) if tensor.numel() else name
    missing = [n for n in own if aliases[n] not in tensors]
    extra = [n for n in tensors if n not in own]
    shapes = [n for n in own if aliases[n] in tensors and tensors[aliases[n]].shape != own[n].shape]
    if missing or extra or shapes:
        name = (missing or extra or shapes)[0]
        raise UserError(
            t("train.weights_do_not_fit", name=name, n=len(missing) + len(extra) + len(shapes)),
            where=where,
            why=t("train.weights_do_not_fit_why"),
            fix=t("train.weights_do_not_fit_fix"),
        )
    for name, tensor in own.items():
        tensor.copy_(tensors[aliases[name]])


SETTLED_STEPS = 64
"""A loss that does not recover is called so at most 50 steps after its onset: what is older than this was made before it."""


@dataclass(frozen=True)
class Retention:
    """Which checkpoints stay: the newest `keep_last`, the best of each figure, every multiple of `keep_every_steps`.

    Where checkpoints are close together also one that is `SETTLED_STEPS` older than the newest, and the one that grows into its place.
    """

    keep_last: int = 2
    keep_best: Mapping[str, Literal["down", "up"]] = field(default_factory=dict)
    keep_every_steps: int | None = None

    def kept(self, checkpoints: list[Listed]) -> set[int]:
        """Steps that stay, by the rule alone."""
        steps = {c.step for c in checkpoints[-self.keep_last :]}
        settled = sum(c.step <= checkpoints[-1].step - SETTLED_STEPS for c in checkpoints)
        steps |= {c.step for c in checkpoints[max(0, settled - 1) : settled + 1]}
        for metric, direction in self.keep_best.items():
            scored = [c for c in checkpoints if isinstance(c.metrics.get(metric), int | float)]
            if scored:
                sign = 1.0 if direction == "down" else -1.0
                steps.add(min(scored, key=lambda c: (sign * c.metrics[metric], c.step)).step)
        if self.keep_every_steps:
            steps |= {c.step for c in checkpoints if c.step and c.step % self.keep_every_steps == 0}
        return steps


def prune(run: Run, retention: Retention) -> list[Path]:
    """Delete what the rule does not keep, and what killed writers left. Nothing goes unless a kept checkpoint reads back whole."""
    if not run.checkpoints.is_dir():
        return []
    sweep_temporaries(run.checkpoints)
    checkpoints = listed(run)
    kept = retention.kept(checkpoints)
    doomed = [c for c in checkpoints if c.step not in kept]
    if not doomed:
        return []
    if not any(not verify(c.path) for c in reversed(checkpoints) if c.step in kept):
        return []
    for checkpoint in doomed:
        # The manifest goes first: a folder caught half deleted is then no checkpoint at all.
        (checkpoint.path / "manifest.json").unlink(missing_ok=True)
        shutil.rmtree(checkpoint.path, ignore_errors=True)
    return [c.path for c in doomed]
