"""A project small enough for seconds: a corpus of two slices, its tokenizer, and a base that was trained and evaluated."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pydoc_data.topics
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from umsicht.evaluate.checkpoint import Options, evaluate_checkpoint
from umsicht.model import ModelConfig, Transformer, build
from umsicht.recipe.tokenizer import TokenizerSettings
from umsicht.record import QUIET, Artifact, Run, Store
from umsicht.tokenizer.sample import Sample
from umsicht.tokenizer.train import train
from umsicht.train import checkpoints

VOCABULARY = 420
SEQ_LEN = 96


def texts() -> list[tuple[str, str]]:
    """(slice, text) of the standard library's reference and code."""
    reference = [("reference", text) for text in pydoc_data.topics.topics.values() if len(text) > 300]
    library = Path(dataclasses.__file__).parent
    code = [("code", (library / name).read_text()) for name in ("dataclasses.py", "fractions.py", "csv.py")]
    return reference[:24] + code


def corpus(store: Store) -> Artifact:
    def make(folder: Path) -> dict[str, Any]:
        rows = [
            {
                "id": hashlib.sha256(text.encode()).hexdigest()[:32],
                "text": text,
                "source": "stdlib",
                "domain": domain,
                "language": "en",
                "licence": "PSF-2.0",
                "origin": "test",
                "bytes": len(text.encode()),
            }
            for domain, text in texts()
        ]
        for split, chosen in (("train", rows[4:-1]), ("val", [*rows[:4], rows[-1]])):
            (folder / split).mkdir()
            pq.write_table(pa.Table.from_pylist(chosen), folder / split / "part-00000.parquet")
        source = {"domain": "reference", "licence": "PSF-2.0", "stages": [{"stage": "read", "bytes": 1000}]}
        return {"sources": {"stdlib": source}, "slices": {"reference.en": {}, "code.en": {}}}

    return store.build("corpus", "small", stage_version=1, settings={}, inputs={}, make=make)


def tokenizer(store: Store, corpus_id: str) -> Artifact:
    def make(folder: Path) -> dict[str, Any]:
        settings = TokenizerSettings(vocab_size=VOCABULARY)
        return train(settings, lambda: (Sample(t, "en", d) for d, t in texts()), folder, QUIET)

    return store.build(
        "tokenizer", "small", stage_version=1, settings={}, inputs={"corpus": corpus_id}, make=make
    )


def config(**changes: object) -> ModelConfig:
    sizes: dict[str, object] = {
        "family": "qwen3",
        "n_tokens": VOCABULARY,
        "vocab_size": 512,
        "d_model": 64,
        "n_layers": 2,
        "n_heads": 2,
        "n_kv_heads": 1,
        "head_dim": 32,
        "d_ff": 128,
        "seq_len": SEQ_LEN,
    }
    return ModelConfig(**{**sizes, **changes})  # type: ignore[arg-type]  # a table of mixed values


def base_run(project: Path, model: Transformer, name: str = "base", *, evaluated: bool = True) -> Run:
    """`model` as a run with one checkpoint."""
    store = Store(project / "artifacts")
    text = corpus(store)
    inputs = {"corpus": text.id, "tokenizer": tokenizer(store, text.id).id}
    evaluate = {
        "baselines": {"context_bytes": 1000, "ngram_tokens": 20000, "bytes_per_slice": 4000},
        "samples": {"temperatures": [0.0], "max_new_tokens": 3, "languages": ["python"]},
    }
    run = Run.create(
        project / "runs" / name,
        {"name": name, "recipe": {"evaluate": evaluate}, "inputs": inputs, "seed": 0, "state": "finished"},
    )
    snapshot = checkpoints.Snapshot(
        step=10,
        tokens=100,
        model=checkpoints.snapshot_of(model.state_dict()),
        optimizer={},
        state={},
        config=model.config.to_dict(),
    )
    checkpoints.save(run, snapshot)
    if evaluated:
        evaluate_checkpoint(run, Options(with_samples=False))
    return run


def fresh(seed: int = 0, **changes: object) -> Transformer:
    """A model away from its starting point: its head is large enough for adapters alone to change what it says."""
    model = build(config(**changes), seed)
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model


def additions(n: int, seed: int = 0) -> list[dict[str, str]]:
    """Small sums as questions with answers, all different."""
    rng = random.Random(seed)
    sums = [(a, b) for a in range(10) for b in range(10)]
    rng.shuffle(sums)
    return [{"question": f"{a}+{b}", "answer": str(a + b)} for a, b in sums[:n]]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def chats(n: int) -> list[dict[str, Any]]:
    """The sums as conversations."""
    return [
        {
            "messages": [
                {"role": "user", "content": row["question"]},
                {"role": "assistant", "content": row["answer"]},
            ]
        }
        for row in additions(n)
    ]


def preferences(n: int) -> list[dict[str, Any]]:
    """The sums with a right and a wrong answer."""
    return [
        {"prompt": row["question"], "chosen": row["answer"], "rejected": str(int(row["answer"]) + 3)}
        for row in additions(n)
    ]
