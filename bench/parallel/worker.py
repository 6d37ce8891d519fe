"""One process, or one rank of several: trains a fixed model on random text and prints its figures as JSON. Arguments: a JSON object."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from umsicht.model import ModelConfig, build
from umsicht.recipe.parallel import ParallelSettings
from umsicht.recipe.train import TrainSettings
from umsicht.record import Run
from umsicht.tokens.batch import Batch, split_rows
from umsicht.train import Trainer
from umsicht.train.parallel import layout_of
from umsicht.train.ranks import join, leave

VOCAB = 4096


class Source:
    """Random ids; the batch of a step by arithmetic."""

    def __init__(self, rows: int, seq: int) -> None:
        self.rows, self.seq = rows, seq
        self.tokens_per_batch = rows * seq

    def batch(self, step: int) -> Batch:
        ids = torch.randint(
            0, VOCAB, (self.rows, self.seq + 1), generator=torch.Generator().manual_seed(step)
        )
        documents = torch.zeros(self.rows, self.seq, dtype=torch.int32)
        return Batch(ids[:, :-1].clone(), ids[:, 1:].clone(), documents, torch.arange(self.rows))

    def micro_batches(self, step: int, rows: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        first, last = split_rows(self.rows, rank, world)
        whole = self.batch(step)
        for start in range(first, last, rows):
            yield whole.slice(start, min(start + rows, last))

    def epoch(self, step: int) -> float:
        return step / 1000

    def state(self) -> dict[str, Any]:
        return {"rows": self.rows}


def main() -> None:
    wanted = json.loads(sys.argv[1])
    config = ModelConfig(
        family="qwen3",
        n_tokens=VOCAB,
        vocab_size=VOCAB,
        d_model=256,
        n_layers=6,
        n_heads=4,
        n_kv_heads=4,
        head_dim=64,
        d_ff=704,
        seq_len=256,
    )
    parallel = ParallelSettings.model_validate(wanted.get("parallel", {}))
    ranks = join(600.0)
    folder = Path(ranks.first(tempfile.mkdtemp() if ranks.is_first else ""))
    source = Source(wanted.get("rows", 16), 256)
    settings = TrainSettings.model_validate(
        {
            "budget": {"steps": wanted["steps"]},
            "global_batch_tokens": source.tokens_per_batch,
            "micro_batch": 4,
            "device": "cpu",
            "precision": "float32",
            "compile": "off",
            "threads": wanted.get("threads", 1),
            "optimizer": {"kind": wanted.get("optimizer", "muon")},
            "checkpoint": {"every_minutes": None},
        }
    )
    if ranks.is_first:
        Run.create(folder / "run", {"name": "run", "recipe": {}, "inputs": {}, "seed": 0})
    ranks.barrier()
    layout = layout_of(parallel, ranks)
    trainer = Trainer(build(config, 0), source, settings, Run.open(folder / "run"), reduction=layout)
    cpu = time.process_time()
    trainer.fit()
    cpu = ranks.sum(torch.tensor(time.process_time() - cpu, dtype=torch.float64))
    said: dict[str, Any] = {"cpu_s": float(cpu)}
    rows = trainer.run.metrics().rows[1:]
    if wanted.get("save"):
        said.update(saving(trainer, wanted["save"]))
    if ranks.is_first:
        said["tokens_per_s"] = statistics.median(row["train/tokens_per_s"] for row in rows)
        shares = [row["train/communication_share"] for row in rows if "train/communication_share" in row]
        said["communication_share"] = statistics.median(shares) if shares else 0.0
        print("RESULT " + json.dumps(said), flush=True)
    leave()


def saving(trainer: Trainer, repeats: int) -> dict[str, float]:
    """Seconds that training stands still for a checkpoint: written before it goes on, and in the background."""
    ranks, saver, carried = trainer.reduction.ranks, trainer.saver, trainer.carried
    found: dict[str, list[float]] = {"synchronous": [], "asynchronous": []}
    for repeat in range(repeats):
        for kind, times in found.items():
            carried.position.step += 1
            ranks.barrier()
            start = time.perf_counter()
            saver.save(saver.take(carried, {}), wait=kind == "synchronous")
            took = float(ranks.table(torch.tensor(time.perf_counter() - start, dtype=torch.float64)).max())
            saver.close()
            if repeat:  # the first copy also reserves its memory
                times.append(took)
    return {f"{kind}_s": statistics.median(times) for kind, times in found.items()}


if __name__ == "__main__":
    main()
