"""Checkpoints that every rank writes a part of (torch.distributed.checkpoint), inside the same envelope as all others.

checkpoints/step-00001000/
    shards/                           parts of weights ("model/…") and optimizer state ("optimizer/…"), and where each lies
    config.json, state.json           as in a checkpoint of one process
    manifest.json                     written last, with the digest of every part: torch's own reader takes flipped bytes for weights

A folder appears under its final name only when every rank has written and every part has its digest. It can be read at any number of
processes and in any layout.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_saver import save as save_parts

from umsicht.findings import UserError
from umsicht.model.shards import SHARDS, has_shards, load_parts
from umsicht.recipe.train import CheckpointSettings
from umsicht.record import Progress, Run, atomic_json
from umsicht.record.files import TEMPORARY, fsync_folder
from umsicht.record.ids import file_digest
from umsicht.record.manifest import write_manifest
from umsicht.train import checkpoints
from umsicht.train.layouts.pieces import take_part
from umsicht.train.reduction import local
from umsicht.train.saver import Saver
from umsicht.train.state import Carried, figures
from umsicht.words import t

Objects = Callable[[Any], list[Any]]


@dataclass
class Parts:
    """What this rank holds of a run's state. Tensors are copies: training may go on while they are written."""

    step: int
    tokens: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]
    config: dict[str, Any] | None = None
    metrics: dict[str, float] = field(default_factory=dict)


@torch.no_grad()
def copies(tensors: Mapping[str, Tensor], prefix: str, kept: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copies under `prefix`; memory of an earlier call in `kept` is used again, so that a copy costs no allocation."""
    found = {}
    for name, tensor in tensors.items():
        key = f"{prefix}{name}"
        box = kept.get(key)
        if box is None or box.shape != tensor.shape or box.dtype != tensor.dtype:
            box = kept[key] = tensor.detach().clone()
        else:
            local(box).copy_(local(tensor))
        found[key] = box
    return found


def save(run: Run, parts: Parts, group: dist.ProcessGroup) -> Path:
    """Write a checkpoint together; every rank of `group` calls this. Raises OSError on all ranks where one fails, leaving nothing behind."""
    rank, world = dist.get_rank(group), dist.get_world_size(group)

    def gather(value: Any) -> list[Any]:
        values: list[Any] = [None] * world
        dist.all_gather_object(values, value, group=group)
        return values

    path = run.checkpoints / checkpoints.folder_name(parts.step)
    name = f"{TEMPORARY}{path.name}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    folder = run.checkpoints / gather(name)[0]
    try:
        _together(gather, lambda: (folder / SHARDS).mkdir(parents=True) if rank == 0 else None)
        _together(gather, lambda: _write_parts(folder, parts, group))
        mine = [_listed(folder, p) for p in sorted((folder / SHARDS).glob(f"__{rank}_*"))]
        listed = dict(entry for entries in gather(mine) for entry in entries)
        _together(gather, lambda: _seal(run, folder, path, parts, listed) if rank == 0 else None)
    except BaseException:
        if rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return path


def _write_parts(folder: Path, parts: Parts, group: dist.ProcessGroup) -> None:
    writer = FileSystemWriter(str(folder / SHARDS), sync_files=True, single_file_per_rank=True)
    try:
        save_parts(parts.tensors, storage_writer=writer, process_group=group)
    except CheckpointException as error:
        # A BaseException that wraps each rank's own; the first OSError among them is what a person can mend.
        causes = [getattr(one, "args", [one])[0] for one in error.failures.values()]
        known = next((one for one in causes if isinstance(one, OSError)), None)
        raise known or OSError(str(error)) from error


def _together(gather: Objects, work: Callable[[], object]) -> None:
    """Do `work` on every rank; where it fails on one it fails on all, with the first rank's OSError."""
    failure: OSError | None = None
    try:
        work()
    except OSError as error:
        failure = error
    found = [
        one
        for one in gather(
            None if failure is None else (failure.errno, failure.strerror or str(failure), failure.filename)
        )
        if one
    ]
    if found:
        number, text, filename = found[0]
        raise OSError(number or 5, text, filename)


def _listed(folder: Path, path: Path) -> tuple[str, dict[str, Any]]:
    return path.relative_to(folder).as_posix(), {"sha256": file_digest(path), "bytes": path.stat().st_size}


def _seal(run: Run, folder: Path, path: Path, parts: Parts, listed: dict[str, Any]) -> None:
    """Rank 0: the small files, the manifest, the final name."""
    if parts.config is not None:
        atomic_json(folder / checkpoints.CONFIG, parts.config)
    atomic_json(folder / checkpoints.STATE, parts.state)
    for small in (checkpoints.CONFIG, checkpoints.STATE, f"{SHARDS}/.metadata"):
        if (folder / small).is_file():
            listed.update([_listed(folder, folder / small)])
    head = {
        "kind": checkpoints.KIND,
        "format": checkpoints.FORMAT,
        "run": run.name,
        "step": parts.step,
        "tokens": parts.tokens,
        "metrics": parts.metrics,
    }
    write_manifest(folder, head, listed)
    fsync_folder(folder)
    if path.exists():
        shutil.rmtree(path)
    folder.replace(path)
    fsync_folder(run.checkpoints)


def parts_of(carried: Carried, row: dict[str, Any], kept: dict[str, Tensor]) -> Parts:
    """A copy of what this rank holds, taken at a step boundary."""
    config: Any = getattr(carried.model, "config", None)
    weights = dict(carried.model.named_parameters())
    return Parts(
        step=carried.position.step,
        tokens=carried.position.tokens,
        tensors={
            **copies(weights, "model/", kept),
            **copies(carried.optimizer.state_tensors(), "optimizer/", kept),
        },
        state=carried.small_state(),
        config=config.to_dict() if hasattr(config, "to_dict") else None,
        metrics=figures(row),
    )


@torch.no_grad()
def fill(carried: Carried, path: Path) -> None:
    """Put a checkpoint of any layout into this rank's parts. Collective where the checkpoint is in parts. Raises UserError."""
    weights = {f"model/{n}": p.detach() for n, p in carried.model.named_parameters()}
    state = {f"optimizer/{n}": p for n, p in carried.optimizer.state_tensors().items()}
    try:
        if has_shards(path):
            load_parts({**weights, **state}, path)
            return
        loaded = checkpoints.load(path, verified=False)
    except OSError as error:
        raise UserError(
            t("train.checkpoint_damaged", file=path.name, problem=error),
            where=str(path),
            fix=t("train.checkpoint_damaged_fix"),
        ) from error
    whole = {f"model/{n}": p for n, p in loaded.model.items()}
    whole |= {f"optimizer/{n}": p for n, p in loaded.optimizer.items()}
    for name, tensor in {**weights, **state}.items():
        if name not in whole or whole[name].shape != tensor.shape:
            raise UserError(
                t("train.weights_do_not_fit", name=name, n=1),
                where=str(path),
                why=t("train.weights_do_not_fit_why"),
                fix=t("train.weights_do_not_fit_fix"),
            )
        take_part(tensor, whole[name])


class ShardedSaver(Saver):
    """As `Saver`, by all ranks together. The background write talks over a group of its own, so that it cannot mix with training's exchanges."""

    def __init__(
        self, run: Run, settings: CheckpointSettings, progress: Progress, group: dist.ProcessGroup
    ) -> None:
        super().__init__(run, settings, progress)
        self.group = group
        self._kept: dict[str, Tensor] = {}

    def take(self, carried: Carried, row: dict[str, Any]) -> Parts:
        """A copy to write. Its memory is that of the copy before, whose write must be over."""
        self._join()
        return parts_of(carried, row, self._kept)

    def _write(self, snapshot: Any) -> None:
        try:
            save(self._run, snapshot, self.group)
            if dist.get_rank(self.group) == 0:
                self._prune()
        except OSError as error:
            self._failure = error
