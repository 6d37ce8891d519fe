"""Records of runs that never ran: real folders in the real formats, with planted events whose place is known."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from umsicht.ratings import Design, Matched, Output, create, default
from umsicht.record import Run, Store, atomic_json
from umsicht.record.metrics import spell

SLICES = ("code.en", "encyclopedia.de", "encyclopedia.en", "prose.fr")
SPIKES = (137, 421, 777)
CLIP = 1.0


def row(
    step: int, rng: random.Random, *, segment: int = 0, every: int = 20, overfit: bool = False
) -> dict[str, Any]:
    """One row as the trainer writes it: training figures at each step, validation every so often."""
    base = 2.1 + 6.2 * math.exp(-step / 120)
    made: dict[str, Any] = {
        "step": step,
        "tokens": step * 4096,
        "time": 1_790_000_000.0 + step * 0.25 + segment * 600,
        "segment": segment,
        "train/loss": base + rng.gauss(0, 0.03),
        "train/grad_norm": abs(rng.gauss(0.7, 0.12)),
        "train/clipped": 0,
        "train/lr": 3e-3
        * min(1.0, (step + 1) / 50)
        * (0.1 + 0.9 * (1 + math.cos(min(1, step / 1000) * math.pi)) / 2),
        "train/tokens_per_s": 16384 + rng.gauss(0, 300),
        "train/data_wait_s": 0.002,
        "train/active_targets": 4096,
        "train/epoch": step / 500,
    }
    if step in SPIKES:
        made["train/loss"] += 4.0
        made["train/grad_norm"] = 9.5
        made["train/clipped"] = 1
    if step % every == 0:
        rise = 0.0006 * max(0, step - 400) if overfit else 0.0
        for n, name in enumerate(SLICES):
            loss = base + 0.08 * n + rise + rng.gauss(0, 0.005)
            made[f"val/{name}/loss"] = loss
            made[f"val/{name}/bpb"] = loss / 2.4
        made["val/all/loss"] = base + 0.12 + rise
        made["val/all/bpb"] = (base + 0.12 + rise) / 2.4
        made["train_eval/loss"] = base + 0.02
        made["train_eval/bpb"] = (base + 0.02) / 2.4
    return made


def lines(rows: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(orjson.dumps(spell(item)) + b"\n" for item in rows)


def make_run(
    project: Path,
    name: str = "first",
    *,
    steps: int = 1000,
    overfit: bool = False,
    resume_at: int | None = None,
    nan_at: int | None = None,
) -> Path:
    """A run folder with metrics, findings, samples, an evaluation, checkpoints, and artifacts it descends from."""
    store = Store(project / "artifacts")
    corpus = store.build(
        "corpus", "mixed", stage_version=1, settings={"a": 1}, inputs={"source:wiki": "ab" * 32}, make=_corpus
    )
    tokenizer = store.build(
        "tokenizer",
        "bpe",
        stage_version=1,
        settings={"vocab_size": 4096},
        inputs={"corpus": corpus.id},
        make=_tokenizer,
    )
    inputs = {"corpus": corpus.id, "tokenizer": tokenizer.id}
    run = Run.create(
        project / "runs" / name,
        {
            "name": name,
            "seed": 7,
            "inputs": inputs,
            "planned_steps": steps,
            "recipe": {
                "train": {"clip_grad_norm": CLIP, "seed": 7, "lr": 3e-3},
                "model": {"d_model": 128, "n_layers": 4},
            },
            "model": {
                "family": "qwen3",
                "d_model": 128,
                "n_layers": 4,
                "n_heads": 4,
                "vocab_size": 4096,
                "n_parameters": 1_840_000,
            },
        },
    )
    rng = random.Random(name)
    made = [row(step, rng, overfit=overfit) for step in range(steps)]
    if nan_at is not None:
        made = made[: nan_at + 1]
        made[nan_at]["train/loss"] = math.nan
        made[nan_at]["train/grad_norm"] = math.inf
    if resume_at is not None:
        made += [row(step, rng, segment=1, overfit=overfit) for step in range(resume_at, steps + 200)]
    run.metrics_path.write_bytes(lines(made))
    run.update_manifest(
        state="finished",
        segments=2 if resume_at is not None else 1,
        outcome={"reason": "finished", "step": steps},
    )
    _rest(run, steps)
    return run.folder


def _corpus(folder: Path) -> dict[str, Any]:
    (folder / "train").mkdir()
    (folder / "train" / "note.txt").write_text("no parquet here")
    stages = [
        ("read", 1200, 9_800_000),
        ("clean", 1100, 9_100_000),
        ("dedupe", 800, 7_000_000),
        ("kept", 780, 6_900_000),
    ]
    return {
        "sources": {
            source: {
                "domain": domain,
                "licence": "MIT",
                "stages": [
                    {"stage": s, "documents": d // n, "bytes": b // n, "tokens": b // n // 4}
                    for s, d, b in stages
                ],
            }
            for n, (source, domain) in enumerate((("wiki", "encyclopedia"), ("stdlib", "code")), start=1)
        },
        "slices": {name: {"documents": 100, "bytes": 1_000_000} for name in SLICES},
    }


def _tokenizer(folder: Path) -> dict[str, Any]:
    (folder / "tokenizer.json").write_text("{}")
    return {"vocab_size": 4096}


def _rest(run: Run, steps: int) -> None:
    run.add_finding(
        {
            "id": "CURVE/spike",
            "grade": "warn",
            "stage": "train",
            "location": "step 137",
            "numbers": {"step": 137, "loss": 6.1},
            "examples": ["a b c"],
        }
    )
    for step in (steps // 2, steps):
        run.add_samples(
            {
                "step": step,
                "prompt": prompt,
                "seed": seed,
                "temperature": 0.8,
                "text": f"{prompt} and so on at step {step} <img src=x onerror=alert(1)>",
            }
            for prompt in ("The river", "Der Fluss")
            for seed in (1, 2)
        )
    atomic_json(
        run.evaluations / f"step-{steps:08d}.json",
        {
            "step": steps,
            "slices": {
                name: {
                    "bpb": 1.0 + n / 10,
                    "bytes": 150_000,
                    "baselines": {"xz": 2.6, "xz_context": 2.1, "ngram": 1.15},
                }
                for n, name in enumerate(SLICES)
            },
        },
    )
    for step in (steps // 2, steps):
        folder = run.checkpoints / f"step-{step:08d}"
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(b"\0" * 2048)
        if step == steps:
            atomic_json(
                folder / "manifest.json",
                {
                    "kind": "checkpoint",
                    "step": step,
                    "files": {"model.safetensors": {"sha256": "00" * 32, "bytes": 2048}},
                },
            )


def make_round(folder: Path) -> None:
    """A round of blind ratings with four pairs for one rater."""
    pairs = [
        Matched(
            *(
                Output(
                    system,
                    f"p{n}",
                    f"Prompt {n}",
                    f"A text of some length, number {n}, by nobody in particular.",
                )
                for system in ("x-one", "x-two")
            )
        )
        for n in range(4)
    ]
    create(folder / "ratings" / "round", pairs, Design(raters=("ada",), seed=1), default("en"))
