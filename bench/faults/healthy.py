"""Healthy pipelines of every kind that a careless check would cry at: each must pass the contracts, and train without an alarm."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.faults import base, watched
from bench.faults.cases import answering, loops, reported, turning, wiring
from bench.faults.work import plain
from umsicht.guard import check, preflight
from umsicht.model import save_weights
from umsicht.recipe import Recipe
from umsicht.recipe.model import DropoutSettings
from umsicht.recipe.tokens import MixSettings, PhaseSettings
from umsicht.recipe.train import (
    OptimizerSettings,
    RegularisationSettings,
    ScheduleSettings,
)
from umsicht.recipe.train import PhaseSettings as PhasesOfTraining

STEPS = 120


def _model(**changes: Any) -> Recipe:
    settings = base.recipe()
    return settings.model_copy(update={"model": settings.model.model_copy(update=changes)})


def _train(**changes: Any) -> Recipe:
    settings = base.recipe()
    return settings.model_copy(update={"train": settings.train.model_copy(update=changes)})


def _seed(seed: int) -> Recipe:
    settings = base.recipe()
    return settings.model_copy(
        update={"seed": seed, "tokens": settings.tokens.model_copy(update={"seed": seed})}
    )


def _phases() -> Recipe:
    settings = base.recipe()
    mix = MixSettings(
        by="source",
        phases=[
            PhaseSettings(until=0.5, shares={"docs": 1.0}),
            PhaseSettings(until=1.0, shares={"stdlib": 0.5, "docs": 0.5}),
        ],
    )
    return settings.model_copy(update={"tokens": settings.tokens.model_copy(update={"mix": mix})})


def _several(
    train: dict[str, Any] | None = None, model: dict[str, Any] | None = None, **tokens: Any
) -> Recipe:
    """Options that do not know of each other, in one run."""
    settings = base.recipe()
    return settings.model_copy(
        update={
            "train": settings.train.model_copy(update=train or {}),
            "model": settings.model.model_copy(update=model or {}),
            "tokens": settings.tokens.model_copy(update=tokens),
        }
    )


HEALTHY: dict[str, Any] = {
    "seed 1": lambda: _seed(1),
    "seed 2": lambda: _seed(2),
    "byte level": base.byte_level,
    "seed 3": lambda: _seed(3),
    "batch of 2 rows": lambda: _train(global_batch_tokens=64),
    "batch of 24 rows": lambda: _train(global_batch_tokens=768),
    "micro-batches of 1": lambda: _train(micro_batch=1),
    "uneven micro-batches": lambda: _train(micro_batch=4),
    "high learning rate": lambda: _train(
        optimizer=OptimizerSettings(
            kind="adamw", matrix_rate=0.01, embedding_rate=0.03, head_rate=0.01, vector_rate=0.01
        )
    ),
    "low learning rate (under-trained)": lambda: _train(
        optimizer=OptimizerSettings(
            kind="adamw", matrix_rate=3e-4, embedding_rate=3e-4, head_rate=3e-4, vector_rate=3e-4
        )
    ),
    "adamw": lambda: _train(optimizer=OptimizerSettings(kind="adamw")),
    "no clipping": lambda: _train(optimizer=OptimizerSettings(clip_norm=None)),
    "no decay": lambda: _train(optimizer=OptimizerSettings(weight_decay=0.0)),
    "cosine": lambda: _train(schedule=ScheduleSettings(shape="cosine", warmup_steps=10)),
    "linear with floor": lambda: _train(schedule=ScheduleSettings(shape="linear", floor=0.1)),
    "cycles": lambda: _train(schedule=ScheduleSettings(shape="cycles", cycles=2)),
    "label smoothing and z-loss": lambda: _train(
        regularisation=RegularisationSettings(label_smoothing=0.1, z_loss=1e-4)
    ),
    "tied": lambda: _model(tied=True),
    "dropout": lambda: base.with_dropout(base.recipe()),
    "best-fit packing": lambda: base.best_fit(base.recipe()),
    "document mask": lambda: _train(document_mask=True),
    "nanochat family": lambda: _model(family="nanochat"),
    "fast family": lambda: _model(family="fast"),
    "grouped keys": lambda: _model(n_heads=4, n_kv_heads=2, head_dim=8),
    "odd row length": lambda: base.recipe().model_copy(
        update={
            "model": base.recipe().model.model_copy(update={"seq_len": 40}),
            "train": base.recipe().train.model_copy(update={"global_batch_tokens": 240}),
        }
    ),
    "declared mix": lambda: base.mixed(base.recipe(), stdlib=0.5, docs=0.3, erzeugt=0.2),
    "declared curriculum": _phases,
    "an empty document among many": base.recipe,
    "several epochs": lambda: _train(global_batch_tokens=2048),
    "decayed embeddings, softcap, many shards": lambda: _several(
        {
            "optimizer": OptimizerSettings(decay_embeddings=True, momentum=0.9, newton_schulz_steps=5),
            "schedule": ScheduleSettings(decay="sqrt", decay_share=0.5),
        },
        {"softcap": 15.0},
        shard_tokens=3000,
    ),
    "averaged weights, short rows first": lambda: _several(
        {
            "optimizer": OptimizerSettings(average_share=0.3),
            "schedule": ScheduleSettings(shape="inverse_sqrt"),
            "phases": PhasesOfTraining(short_sequences=16),
        },
        {"rope_theta": 500.0},
    ),
    "padded rows kept apart, mix by slice": lambda: _several(
        {"document_mask": True},
        {"dropout": DropoutSettings(residual=0.1)},
        packing="best-fit",
        mix=MixSettings(by="slice", shares={"code.en": 0.5, "prose.de": 0.3, "prose.en": 0.2}),
    ),
    "tied, kept apart, smoothed": lambda: _several(
        {
            "document_mask": True,
            "regularisation": RegularisationSettings(label_smoothing=0.1),
            "schedule": ScheduleSettings(shape="constant"),
        },
        {"tied": True, "family": "nanochat"},
    ),
    "resumed": base.recipe,
    "continued from trained weights": base.recipe,
}

LOOPS: dict[str, Callable[[], dict[str, Any]]] = {
    "rotary loop": lambda: loops.looped(model=turning.Turning()),
    "loop with dropout, recomputed": lambda: turning.dropping(0.2),
    "loop with experts, balance a target": lambda: turning.routed(lambda own, total, parts: own / total),
    "loop with experts, balance a micro-batch": lambda: turning.routed(lambda own, total, parts: 1 / parts),
    "loop with z-loss": lambda: turning.padded(loss=turning.pulled(1e-2, everywhere=False)),
    "loop with an Adam of its own": wiring.own,
    "loop that clips": lambda: wiring.clipped(lambda model: list(model.parameters())),
    "loop that sets its rates": lambda: wiring.scheduled(2),
    "loop that counts from 1": lambda: answering.ahead(lambda number: 1e-3 * min(1.0, number / 40)),
    "loop that trains on answers": answering.talking,
    "loop that evaluates an average": lambda: answering.averaging(0.999),
    "loop that prefers": answering.preferring,
    **reported.HEALTHY,
}
"""Healthy twins of the loops in `cases/`: the same code without its fault."""


def run_loop(name: str, folder: Path) -> dict[str, Any]:
    """Every contract that can be asked of somebody else's loop."""
    base.single_thread()
    begun = time.monotonic()
    return {"named": plain(check(**LOOPS[name](), all=True)), "seconds": time.monotonic() - begun}


def trained(pipeline: base.Pipeline, folder: Path, steps: int = 150) -> Path:
    """Weights after a short run of the pipeline itself."""
    folder.mkdir()
    model = watched.train(pipeline, folder, steps)["model"]
    return save_weights(model, folder / "weights")


def run_healthy(name: str, folder: Path) -> dict[str, Any]:
    """Contracts first, then a real run with all monitors on; for `resumed` in three parts."""
    base.single_thread()
    begun = time.monotonic()
    pipeline = base.begin(HEALTHY[name](), folder)
    if name.startswith("an empty"):
        pipeline.train.insert(7, base.as_text(pipeline.train[7], " "))
    pipeline.make_tokens()
    pipeline.make_run()
    if name.startswith("continued"):
        pipeline.start_at(trained(pipeline, folder / "earlier"))
    report = preflight(pipeline.inputs(), all=True)
    checked = time.monotonic() - begun
    halts = (47, 90) if name == "resumed" else ()
    seen = watched.train(pipeline, folder, STEPS, halts)
    return {
        "named": [
            {
                "id": f.id,
                "grade": f.grade,
                "location": f.location,
                "numbers": {k: str(v) for k, v in f.numbers.items()},
            }
            for f in report
            if f.grade != "note"
        ],
        "alarms": [f["id"] for f in seen["findings"] if f["grade"] != "note"],
        "steps": seen["steps"],
        "reason": seen["reason"],
        "seconds": checked,
    }
