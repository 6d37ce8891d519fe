"""Run by torchrun: the same model and batches in every layout asked for; rank 0 writes gradient differences, losses and shapes as JSON.

`drop` deletes one exchange (by name), to show that the comparison would see it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from toy import settings

import umsicht.train.layouts.mesh as mesh_module
import umsicht.train.layouts.vocabulary as vocabulary_module
import umsicht.train.parallel as parallel_module
from umsicht.model import ModelConfig, build
from umsicht.recipe.parallel import ParallelSettings
from umsicht.record import Run
from umsicht.tokens.batch import IGNORE, Batch, split_rows
from umsicht.train import Trainer
from umsicht.train.alone import ALONE
from umsicht.train.layouts.whole import whole_tensors
from umsicht.train.parallel import layout_of
from umsicht.train.ranks import join, leave

VOCAB = 512


class Source:
    """Rows of ids with a pattern to learn; targets masked unevenly, one row without any."""

    def __init__(self, rows: int, seq: int) -> None:
        self.rows, self.seq = rows, seq

    @property
    def tokens_per_batch(self) -> int:
        return self.rows * self.seq

    def batch(self, step: int) -> Batch:
        generator = torch.Generator().manual_seed(step)
        ids = torch.randint(0, VOCAB, (self.rows, self.seq + 1), generator=generator)
        ids[:, 1::2] = (3 * ids[:, :-1:2] + 1) % VOCAB
        targets = ids[:, 1:].clone()
        for row in range(self.rows):
            targets[row, self.seq - (5 * row + 3 * step) % self.seq :] = IGNORE
        targets[1] = IGNORE
        documents = (torch.arange(self.seq) * 3 // self.seq).repeat(self.rows, 1).int()
        return Batch(ids[:, :-1].clone(), targets, documents, torch.arange(self.rows) + step * self.rows)

    def micro_batches(self, step: int, rows: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        first, last = split_rows(self.rows, rank, world)
        for start in range(first, last, rows):
            yield self.batch(step).slice(start, min(start + rows, last))

    def epoch(self, step: int) -> float:
        return step / 100

    def state(self) -> dict[str, Any]:
        return {"rows": self.rows}


def config(family: str, layers: int) -> ModelConfig:
    return ModelConfig(
        family=family,  # type: ignore[arg-type]  # from JSON
        n_tokens=VOCAB - 3,
        vocab_size=VOCAB,
        d_model=256,
        n_layers=layers,
        n_heads=8,
        n_kv_heads=4,
        head_dim=32,
        d_ff=512,
        seq_len=32,
        softcap=15.0 if family == "fast" else None,
    )


NOT_ZERO = (
    "o_proj.weight",
    "down_proj.weight",
    "head.weight",
    "value_gate.weight",
    "bias",
    "positions.weight",
)


def model_of(case: dict[str, Any]) -> torch.nn.Module:
    """A model whose output projections are not zero, so that every exchange matters from the first step on."""
    model = build(config(case.get("family", "qwen3"), case.get("layers", 4)), seed=3)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(NOT_ZERO):
                parameter.normal_(0.0, 0.03, generator=generator)
    return model


def trainer_of(case: dict[str, Any], folder: Path, layout: Any) -> Trainer:
    source = Source(case.get("rows", 8), 32)
    chosen = settings(
        case.get("steps", 20),
        global_batch_tokens=source.tokens_per_batch,
        micro_batch=case.get("micro", 2),
        optimizer={"kind": case.get("optimizer", "adamw")},
        document_mask=case.get("document_mask", False),
        regularisation=case.get("regularisation", {}),
        checkpoint={"every_minutes": None},
    )
    run = Run.open(folder)
    return Trainer(model_of(case), source, chosen, run, reduction=layout)


def gradient_of(trainer: Trainer, layout: Any) -> dict[str, torch.Tensor]:
    """The whole gradient of the first step."""
    trainer._gradient(0)
    grads = {n: p.grad for n, p in trainer.model.named_parameters()}
    group = layout._groups["pipeline",] if layout.is_split else None
    return {n: g.clone() for n, g in whole_tensors(grads, group).items()}


def shapes(trainer: Trainer) -> dict[str, list[int]]:
    """What this rank holds of some weights, and of the stream inside the first block it has."""
    wanted = ("q_proj.weight", "down_proj.weight", "embed.weight", "head.weight")
    from umsicht.train.reduction import local

    held = {n: list(local(p).shape) for n, p in trainer.model.named_parameters() if n.endswith(wanted)}
    return {**held, "stream": STREAM}


STREAM: list[int] = []


def watch_stream(model: torch.nn.Module) -> None:
    """Note the shape in which the stream reaches a norm."""
    for name, module in model.named_modules():
        if name.endswith("attention_norm"):
            module.register_forward_pre_hook(lambda _, given: STREAM.__setitem__(slice(None), given[0].shape))
            return


def losses(run: Run) -> list[float]:
    return [row["train/loss"] for row in run.metrics().rows if "train/loss" in row]


def drop(name: str) -> None:
    """Delete one exchange from the product."""
    if name == "gradients":
        mesh_module.sum_gradients = lambda *a, **k: None
        parallel_module.sum_gradients = lambda *a, **k: None
    elif name == "hidden":
        real = vocabulary_module.dist.all_reduce

        def without(tensor: torch.Tensor, *a: Any, **k: Any) -> Any:
            return None if tensor.ndim == 2 and tensor.shape[1] == 256 else real(tensor, *a, **k)

        vocabulary_module.dist.all_reduce = without
    elif name == "partial":
        mesh_module.partial_parameters = lambda model: []
    elif name == "shard":
        from torch.distributed.fsdp import FSDPModule

        FSDPModule.set_gradient_divide_factor = lambda self, factor: None


def alone(folder: Path, case: dict[str, Any]) -> tuple[dict[str, torch.Tensor], list[float]]:
    """Gradient of the first step and losses of one process."""
    run = Run.create(folder, {"name": folder.name, "recipe": {}, "inputs": {}, "seed": 0})
    trainer = trainer_of(case, run.folder, ALONE)
    trainer._gradient(0)
    gradient = {n: p.grad.clone() for n, p in trainer.model.named_parameters() if p.grad is not None}
    trainer.carried.optimizer.zero_grad()
    trainer.fit()
    return gradient, losses(Run.open(folder))


def main() -> None:
    wanted = json.loads(sys.argv[1])
    ranks = join(900.0)
    folder = Path(wanted["folder"])
    drop(wanted.get("drop", ""))
    results: dict[str, Any] = {}
    for name, case in wanted["cases"].items():
        key = json.dumps({k: v for k, v in case.items() if k != "parallel"}, sort_keys=True)

        def prepare(name: str = name, case: dict[str, Any] = case, key: str = key) -> None:
            """Rank 0 trains alone, once for all layouts of one kind; the others wait without a collective, which would time out."""
            if not ranks.is_first:
                return
            if key not in results:
                results[key] = alone(folder / f"{name}-alone", case)
            Run.create(folder / name, {"name": name, "recipe": {}, "inputs": {}, "seed": 0})

        ranks.after_first(prepare)
        layout = layout_of(ParallelSettings.model_validate(case["parallel"]), ranks)
        trainer = trainer_of(case, folder / name, layout)
        watch_stream(trainer.model)
        gradient = gradient_of(trainer, layout)
        trainer.carried.optimizer.zero_grad()
        held = ranks.gather(shapes(trainer))
        outcome = trainer.fit()
        if ranks.is_first:
            reference, theirs = results[key]
            scale = sum(float(g.double().square().sum()) for g in reference.values()) ** 0.5
            apart = {n: float((gradient[n] - g).double().norm()) for n, g in reference.items()}
            mine = losses(Run.open(folder / name))
            said = {
                "reason": outcome.reason,
                "gradient": sum(v * v for v in apart.values()) ** 0.5 / scale,
                "worst": max(apart, key=lambda n: apart[n]),
                "loss": max((abs(a - b) / abs(b) for a, b in zip(mine, theirs, strict=False)), default=1.0),
                "fell": theirs[-1] / theirs[0],
                "shapes": held,
                "steps": len(mine),
            }
            (folder / f"{name}.json").write_text(json.dumps(said))
    leave()


if __name__ == "__main__":
    main()
