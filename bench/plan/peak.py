"""Predicted and measured peak memory of one short training, in a process of its own: `python -m bench.plan.peak TOKENS WIDTH LAYERS KIND ROWS STEPS`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from umsicht.model import derive
from umsicht.plan.memory import predict
from umsicht.plan.trial import Bench, run_trial
from umsicht.recipe.model import ModelSettings
from umsicht.recipe.tokens import TokensSettings
from umsicht.recipe.train import CheckpointSettings, OptimizerSettings, TrainSettings
from umsicht.tokens import TokenData

SEQ_LEN = 128


def main(folder: str, width: str, layers: str, kind: str, rows: str, steps: str) -> None:
    """Print both in bytes as JSON. A tiny training first loads every library that a training needs."""
    data = TokenData.open(Path(folder))
    train = TrainSettings(
        global_batch_tokens=SEQ_LEN * int(rows),
        micro_batch=int(rows),
        threads=1,
        precision="float32",
        compile="off",
        optimizer=OptimizerSettings.model_validate({"kind": kind}),
        checkpoint=CheckpointSettings(asynchronous=False),
    )
    bench = Bench(data, TokensSettings(), train)
    run_trial(
        bench,
        derive(ModelSettings(d_model=32, n_layers=1, seq_len=SEQ_LEN), data.n_tokens),
        2,
        slice_bytes=500,
    )
    config = derive(ModelSettings(d_model=int(width), n_layers=int(layers), seq_len=SEQ_LEN), 8192)
    measured = run_trial(bench, config, int(steps), slice_bytes=500).peak_bytes
    made = predict(config, train, int(rows))
    tensors = max(made.tensors, made.saving - made.surplus)
    print(json.dumps({"predicted": made.peak, "tensors": tensors, "measured": measured}))


if __name__ == "__main__":
    main(*sys.argv[1:])
