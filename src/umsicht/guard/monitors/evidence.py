"""What is kept with an alarm: which samples, how each row scored, and the worst rows as people can read them."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from umsicht.findings import Finding
from umsicht.record import atomic_json
from umsicht.tokens.batch import IGNORE
from umsicht.train.hooks import View

WORST = 3


@torch.no_grad()
def row_losses(model: Any, batch: Any) -> list[float]:
    """Mean nats of each row's active targets under the present weights, in eval mode."""
    was = model.training
    model.eval()
    out: list[float] = []
    try:
        for start in range(0, batch.inputs.shape[0], 8):
            inputs, targets = batch.inputs[start : start + 8], batch.targets[start : start + 8]
            device = next(model.parameters()).device
            logits = model(inputs.to(device)).float()
            nats = functional.cross_entropy(
                logits.transpose(1, 2), targets.to(device), ignore_index=IGNORE, reduction="none"
            )
            active = (targets != IGNORE).sum(dim=1).clamp_min(1).to(device)
            out += (nats.sum(dim=1) / active).tolist()
    finally:
        model.train(was)
    return out


def decoded(tokenizer: Any, ids: list[int]) -> str:
    """Text of a row, or its ids where there is no tokenizer or it cannot read them."""
    if tokenizer is None:
        return " ".join(str(value) for value in ids[:64])
    try:
        return str(tokenizer.decode(ids))
    except Exception:  # a foreign tokenizer may raise anything; the ids themselves say enough
        return " ".join(str(value) for value in ids[:64])


def keep_batch(view: View, finding: Finding, tokenizer: Any) -> str:
    """Write `alarms/step-XXXXXXXX.json` into the run's folder; returns its name. A disk that refuses costs the evidence, not the run."""
    batch = view.batch
    if batch is None:
        return ""
    try:
        losses = row_losses(view.model, batch)
    except (RuntimeError, IndexError, ValueError):
        losses = []
    order = sorted(range(len(losses)), key=lambda row: losses[row], reverse=True)[:WORST] or list(
        range(min(WORST, batch.inputs.shape[0]))
    )
    name = f"step-{view.step:08d}.json"
    record = {
        "step": view.step,
        "finding": finding.id,
        "samples": [int(value) for value in batch.rows.tolist()],
        "row_loss": losses,
        "worst": [
            {
                "row": row,
                "sample": int(batch.rows[row]) if row < len(batch.rows) else -1,
                "loss": losses[row] if losses else None,
                "ids": batch.inputs[row].tolist(),
                "text": decoded(tokenizer, batch.inputs[row].tolist()),
            }
            for row in order
        ],
    }
    folder = view.run.folder / "alarms"
    try:
        folder.mkdir(exist_ok=True)
        atomic_json(folder / name, record)
    except OSError:
        return ""
    return name
