"""Run by torchrun: one leg of a run that goes on at another number of processes, or in another layout. Stops itself after `until` steps."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from layouts_main import Source, model_of
from toy import settings

from umsicht.recipe.parallel import ParallelSettings
from umsicht.record import Run
from umsicht.record.run import append_jsonl
from umsicht.train import CallHook, Trainer, View
from umsicht.train.parallel import layout_of
from umsicht.train.ranks import join, leave


class Epochs(Source):
    """Sample numbers within an epoch of 24 rows, so that three steps of eight are one."""

    def batch(self, step: int):  # type: ignore[no-untyped-def]
        whole = super().batch(step)
        whole.rows.remainder_(24)
        return whole

    def epoch(self, step: int) -> float:
        return step * self.rows / 24


def main() -> None:
    wanted = json.loads(sys.argv[1])
    folder = Path(wanted["folder"])
    ranks = join(900.0)
    if ranks.is_first and not (folder / "manifest.json").exists():
        Run.create(folder, {"name": "chain", "recipe": {}, "inputs": {}, "seed": 0})
    ranks.barrier()
    layout = layout_of(ParallelSettings.model_validate(wanted.get("parallel", {})), ranks)

    def ledger(view: View) -> None:
        rows = view.batch.rows.tolist() if layout.speaks else []
        parts = ranks.gather(rows)
        if ranks.is_first:
            read = [row for part in parts for row in part]
            append_jsonl(folder / "ledger.jsonl", [{"step": view.step, "rows": read, "lr": view.lr}])
        if view.step == wanted["until"]:
            os.kill(os.getpid(), signal.SIGTERM)

    chosen = settings(
        wanted.get("steps", 12),
        global_batch_tokens=8 * 32,
        optimizer={"kind": "muon"},
        checkpoint={"every_minutes": None, **wanted.get("checkpoint", {})},
    )
    source = Epochs(8, 32)
    hook = CallHook("ledger", ledger)
    Trainer(model_of({}), source, chosen, Run.open(folder), hooks=(hook,), reduction=layout).fit()
    leave()


if __name__ == "__main__":
    main()
