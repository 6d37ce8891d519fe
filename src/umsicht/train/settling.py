"""What is settled before the first step: machine, length, threads, whether compiling pays. Tried once, recorded, taken from the record on resume."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from umsicht.recipe.train import TrainSettings
from umsicht.record import Progress, Run
from umsicht.tokens.batch import BatchSource
from umsicht.train import compiling
from umsicht.train.budget import planned_tokens, total_steps
from umsicht.train.fitting import fitted
from umsicht.train.machine import (
    PRODUCT_TYPES,
    Machine,
    fastest_threads,
    product_seconds,
    resolve,
    threads_are_named,
)
from umsicht.train.precision import sparing_frozen
from umsicht.train.reduction import Reduction
from umsicht.words import t


def machine_of(
    run: Run,
    settings: TrainSettings,
    reduction: Reduction,
    model: nn.Module,
    *,
    rows: int,
    seq_len: int,
    progress: Progress,
) -> Machine:
    """The recorded choices, or new ones for a global batch of `rows` rows; rank 0 chooses for all.

    In another layout threads and micro-batch are chosen anew.
    """
    recorded = run.manifest.get("machine")
    ranks = reduction.ranks
    if recorded and int(run.manifest.get("world", 1)) == ranks.world:
        machine = Machine.from_dict(recorded)
        torch.set_num_threads(machine.threads)
        return machine
    part = -(-rows // reduction.world)
    fresh = resolve(settings, rows=part, seq_len=seq_len)
    if settings.precision == "auto":
        fresh = sparing_frozen(fresh, model)
    if ranks.world == 1:
        fresh = fitted(fresh, model, settings, rows=part, seq_len=seq_len)
    machine = Machine.from_dict(ranks.first(fresh.to_dict()))
    if recorded:
        kept = {"precision": recorded["precision"], "compile": False, "device": recorded["device"]}
        machine = replace(machine, **kept)
        progress.note(t("train.world_changed", old=run.manifest.get("world", 1), new=ranks.world))
        run.update_manifest(machine=machine.to_dict())
    run.update_manifest(world=ranks.world)
    torch.set_num_threads(machine.threads)
    return machine


def length_and_machine(
    run: Run,
    settings: TrainSettings,
    reduction: Reduction,
    source: BatchSource,
    machine: Machine,
    *,
    gradient: Callable[[], Any],
    step_seconds: Callable[[], float],
) -> tuple[int, Machine]:
    """Steps of the whole run, and the machine with what only trying can tell: threads, and whether compiling pays for that length.

    `gradient` computes one, to be timed; `step_seconds` times a whole step, which only a budget in minutes asks for.
    """
    if run.manifest.get("machine"):
        return _length(run, settings, reduction, source, step_seconds), machine
    alone = reduction.ranks.world == 1
    if alone and machine.device == "cpu" and machine.threads > 1 and not threads_are_named(settings):
        best, measured = fastest_threads(gradient, (machine.threads, 1))
        machine = replace(machine, threads=best, measured={**machine.measured, **measured})
    steps = _length(run, settings, reduction, source, step_seconds)
    step_s = machine.measured.get(f"step_s_with_{machine.threads}_threads", 0.0)
    wanted = settings.compile if alone or settings.compile != "auto" else "off"
    compiled = compiling.choose(wanted, machine.device, steps * step_s) and not reduction.is_split
    machine = replace(machine, compile=compiled)
    run.update_manifest(machine=machine.to_dict())
    return steps, machine


def _length(
    run: Run,
    settings: TrainSettings,
    reduction: Reduction,
    source: BatchSource,
    step_seconds: Callable[[], float],
) -> int:
    recorded = run.manifest.get("planned_steps")
    if recorded:
        return int(recorded)
    steps = int(reduction.ranks.first(total_steps(settings.budget, source, step_seconds)))
    run.update_manifest(planned_steps=steps, planned_tokens=planned_tokens(source, steps))
    return steps


def peak_flops_per_s(machine: Machine, flops_per_token: float) -> float:
    """Operations a second of a large product, measured here now: the ceiling that utilisation is a share of. 0 where nobody asks for a share."""
    if not flops_per_token:
        return 0.0
    return 2 * 512**3 / product_seconds(PRODUCT_TYPES[machine.precision], machine.device)
