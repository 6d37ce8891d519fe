"""The contracts on a run of Umsicht's own: recipe, data, model and trainer go through every probe before the first long step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from umsicht.guard.adapt_batch import read_batch
from umsicht.guard.adapt_loss import LossView
from umsicht.guard.adapt_model import ModelView
from umsicht.guard.declared import Declared
from umsicht.guard.monitors import monitors
from umsicht.guard.probe import Order, Report
from umsicht.guard.probes import PIPELINE_PROBES
from umsicht.guard.probes.rehearse import Stage, Trace, scratch
from umsicht.guard.probes.resume import one_segment
from umsicht.guard.subject import Subject
from umsicht.recipe import Recipe
from umsicht.recipe.train import TrainSettings
from umsicht.record import QUIET, Progress
from umsicht.score import score_split
from umsicht.tokens import PackedSource, TokenData
from umsicht.train.hooks import Hook
from umsicht.train.machine import resolve
from umsicht.train.objective import LanguageModelling

TEXT_CHARACTERS = 400_000


@dataclass(frozen=True)
class PreflightInputs:
    """Everything a run will be made of.

    `source(steps)` makes the batch source of the real run; `model()` a fresh model; `documents(split)` the corpus documents in the order in
    which they were encoded; `root` is a folder on the disk where checkpoints will go, for rehearsals that are thrown away.
    """

    recipe: Recipe
    tokenizer: Any
    tokens_path: Path
    source: Callable[[int | None], Any]
    model: Callable[[], nn.Module]
    config: Any = None
    planned_steps: int | None = None
    documents: Callable[[str], Iterable[Any]] | None = None
    raw_texts: Callable[[], Iterable[tuple[str, str]]] | None = None
    benchmarks: dict[str, list[str]] = field(default_factory=dict)
    root: Path | None = None
    declared: Declared | None = None
    objective: Any = None
    start: Path | None = None
    """The folder whose weights the run starts from, where it continues an older one."""
    elsewhere: Callable[[Path, int, int | None], Trace] | None = None
    """Trains one part of the resume rehearsal (folder, steps, stop) in a new process; nothing given: all parts in this one."""


def declared_by(recipe: Recipe, data: TokenData) -> Declared:
    """What a recipe says about its run, in the words of the probes."""
    mix = recipe.tokens.mix
    shares = dict(mix.shares) if mix.by in ("source", "slice") else {}
    known = {
        name for name in shares if name in (data.train.sources if mix.by == "source" else data.train.slices)
    }
    return Declared(
        freshly_initialised=not recipe.train.start_from,
        document_mask=recipe.train.document_mask,
        shares={name: shares[name] for name in known},
        ordered=bool(mix.phases),
        bos=False,
        eos=True,
        loss_on="all" if recipe.tokens.packing == "concatenate" else None,
        no_decay=True,
        clip=recipe.train.optimizer.clip_norm,
        overlap_allowed=recipe.check.overlap_allowed,
    )


def preflight(
    inputs: PreflightInputs,
    *,
    all: bool = False,
    only: Iterable[str] = (),
    quick: bool = False,
    progress: Progress = QUIET,
) -> Report:
    """Run every contract on the parts of a run; findings in order, the cause first. Nothing of the run itself is touched."""
    with scratch(inputs.root) as folder:
        subject = subject_of(inputs, folder, quick=quick)
        return Order(
            PIPELINE_PROBES, all=all, only=frozenset(only), progress=lambda stage: progress.advance(1, stage)
        ).run(subject)


def subject_of(inputs: PreflightInputs, folder: Path, *, quick: bool = False) -> Subject:
    """The parts of a run in the one shape that probes read."""
    recipe, data = inputs.recipe, TokenData.open(inputs.tokens_path)
    source = inputs.source(inputs.planned_steps)
    model = inputs.model()
    regular = recipe.train.regularisation

    def loss(model: Any, batch: Any) -> torch.Tensor:
        # The count stands here as in the loop: over the whole batch, never below one.
        sums = objective(model, batch)
        total: torch.Tensor = sums.objective / max(1, int((batch.targets >= 0).sum()))
        return total

    first = source.batch(0)
    machine = resolve(recipe.train, rows=first.inputs.shape[0], seq_len=first.inputs.shape[1]).to_dict()
    objective = inputs.objective or LanguageModelling(
        label_smoothing=regular.label_smoothing,
        z_loss=regular.z_loss,
        document_mask=recipe.train.document_mask,
        autocast=machine["precision"] == "autocast",
    )
    examples = [read_batch(source.batch(step)) for step in range(4 if quick else 12)]
    view = ModelView(model)
    stage = stage_for(inputs, folder, machine, source)
    # A mean of means only shows where there are several slices.
    several = data.val.n_documents and len(set(data.val.slice_numbers.tolist())) > 1
    scored = scored_documents(data.val if several else data.train)
    extra: dict[str, Any] = {
        "data": data,
        "source": source,
        "fresh_source": lambda: inputs.source(inputs.planned_steps),
        "small_source": lambda: small_source(recipe, data),
        "planned_steps": inputs.planned_steps,
        "documents": inputs.documents,
        "raw_texts": list(inputs.raw_texts()) if inputs.raw_texts else None,
        "benchmarks": inputs.benchmarks,
        "stage": stage,
        "elsewhere": inputs.elsewhere,
        "start": inputs.start,
        "objective": objective,
        "eos_id": data.eos_id,
        "seq_len": recipe.model.seq_len,
        "pad_id": data.eos_id,
        "mix_by": recipe.tokens.mix.by,
        "stability_steps": 0 if quick else recipe.check.stability_steps,
        "overfit": recipe.check.overfit_one_batch,
        "scored": scored,
        "score": lambda module, split, tokens: score_split(
            module,
            split,
            seq_len=recipe.model.seq_len,
            prefix=data.eos_id,
            **({"batch_tokens": tokens} if tokens else {}),
        ),
    }
    return Subject(
        model=view,
        loss=LossView(loss, view, examples[0]),
        examples=examples,
        batches=source,
        tokenizer=inputs.tokenizer,
        texts=texts_of(inputs),
        declared=inputs.declared or declared_by(recipe, data),
        seed=recipe.seed,
        quick=quick,
        extra=extra,
    )


def stage_for(inputs: PreflightInputs, folder: Path, machine: dict[str, Any] | None, source: Any) -> Stage:
    """Where rehearsals run: the run's own model, batches, settings and monitors."""
    return Stage(
        make_model=inputs.model,
        make_source=lambda: inputs.source(inputs.planned_steps),
        settings=inputs.recipe.train,
        folder=folder,
        seed=inputs.recipe.seed,
        steps=10,
        machine=machine,
        objective=inputs.objective,
        monitors=watching(inputs, source),
    )


def segment(inputs: PreflightInputs, folder: Path, steps: int, stop: int | None) -> Trace:
    """One part of the resume rehearsal begun elsewhere in `folder`: what the new process does."""
    source = small_source(inputs.recipe, TokenData.open(inputs.tokens_path))
    stage = stage_for(inputs, folder, None, source)
    return one_segment(stage, source, stage.short(steps), stop)


def watching(inputs: PreflightInputs, source: Any) -> Callable[[TrainSettings, int], list[Hook]]:
    """The run's own monitors, for rehearsals of the net."""
    return lambda settings, steps: monitors(
        inputs.recipe.check,
        source=source,
        settings=settings,
        schedule_steps=steps,
        tokenizer=inputs.tokenizer,
        objective=inputs.objective,
    )


def texts_of(inputs: PreflightInputs) -> list[tuple[str, str]]:
    """Documents of every slice, spread over the corpus, for the checks that read text."""
    if inputs.documents is None:
        return []
    found: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for split in ("train", "val"):
        for document in inputs.documents(split):
            name = f"{document.domain}.{document.language}"
            if sizes.get(name, 0) < TEXT_CHARACTERS:
                found.setdefault(name, []).append(document.text)
                sizes[name] = sizes.get(name, 0) + len(document.text)
    return [(name, text) for name, texts in found.items() for text in texts]


def scored_documents(split: Any) -> Any:
    """A few documents of every slice: enough to add up by hand."""
    return split.sample(bytes_per_slice=600)


def small_source(recipe: Recipe, data: TokenData) -> PackedSource:
    """The real source over so few documents that an epoch ends after a few steps: what a resume across the edge is tried on."""
    needed = 4 * recipe.train.global_batch_tokens
    split = data.train
    labels, names = split.labels(recipe.tokens.mix.by)
    wanted = set(recipe.tokens.mix.shares) | {
        name for phase in recipe.tokens.mix.phases for name in phase.shares
    }
    chosen: list[int] = []
    for number, name in enumerate(names):
        if wanted and name not in wanted:
            continue
        members = np.flatnonzero(labels == number)
        total = 0
        for member in members.tolist():
            if total * len(names) >= needed and total > 1:
                break
            chosen.append(member)
            total += int(split.lengths[member])
    mix = recipe.tokens.mix
    if mix.phases:
        mix = mix.model_copy(update={"phases": [], "shares": mix.phases[0].shares})
    return PackedSource(
        split.select(np.asarray(sorted(chosen), dtype=np.int64)),
        seq_len=recipe.model.seq_len,
        batch_tokens=recipe.train.global_batch_tokens,
        eos_id=data.eos_id,
        seed=recipe.tokens.seed,
        packing=recipe.tokens.packing,
        mix=mix,
        total_steps=None,
    )
