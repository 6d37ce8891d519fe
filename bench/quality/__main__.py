"""`make bench-quality`: bits per byte for equal processor time, ours against peers in their own environment.

Each program trains the same shape (width 128, 4 layers, 4,096 tokens of vocabulary, float32, one thread) on the same windows with its own recipe and
schedule, and gets the same number of tries at its learning rate, scored on a split that the comparison never sees. The question is what share of a
peer's processor time ours needs for the peer's mean score: half for AdamW recipes. Two programs run at a time, one thread each. Repositories that are not on PyPI are run from NANOGPT_DIR and
NANOCHAT_DIR; against nanochat's own recipe the bar is 0.85 of its time, and at 24 seconds all of it.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from bench.common import QUICK, ROOT, Bench
from bench.peers.environment import peer_python
from bench.plan.corpus import tokens
from bench.program import Program
from umsicht.tokens import TokenData

BUDGETS = {"24 s": 24.0, "2 min": 120.0, "10 min": 600.0}
# Which of them are run: all takes hours; what is left out is shown as not measured.
CHOSEN = ["24 s"] if QUICK else os.environ.get("QUALITY_BUDGETS", "24 s,2 min").split(",")
SEEDS = (0, 1, 2)
TUNING_S = 8.0
AT_ONCE = 2
"""Programs that run at the same time, each on one thread, so that both see the same machine."""
# Peers name a rate, ours a factor on its default rates; three tries each, a doubling or so apart.
RATES = {"umsicht": (0.5, 1.0, 2.0), "nanochat": (0.3, 0.6, 1.2), "peer": (1e-3, 3e-3, 8e-3)}
ADAMW = ("litgpt", "transformers", "nanogpt")
SHARE, NANOCHAT_SHARE = 0.5, {"24 s": 1.0, "2 min": 0.85, "10 min": 0.85}
FOLDERS = {"nanogpt": "NANOGPT_DIR", "nanochat": "NANOCHAT_DIR"}
VOCAB, SCORED_TOKENS = 4096, 25_000


class Subject(Program):
    """A program in a process of its own."""

    def __init__(self, name: str, python: Path, folder: Path) -> None:
        self.name = name
        super().__init__(python, ROOT / "bench" / "quality" / "subjects.py", [name, str(folder)])

    def train(self, cpu_s: float, seed: int, rate: float, split: str = "val") -> dict[str, float]:
        """One training."""
        return self.ask(json.dumps({"cpu_s": cpu_s, "seed": seed, "rate": rate, "split": split}))

    def tuned(self) -> tuple[float, list[str]]:
        """The best of its three rates on the tuning split."""
        rates = RATES.get(self.name.partition("-")[0], RATES["peer"])
        scores = {rate: self.train(TUNING_S, 100, rate, "tune")["bpb"] for rate in rates}
        said = [f"| {self.name} | {rate:g} | {score:.3f} |" for rate, score in scores.items()]
        return min(scores, key=lambda rate: scores[rate]), said


def prepare(folder: Path) -> None:
    """Token streams of sources and documentation strings that come with Python: training, tuning and validation text."""
    _, made = tokens(folder, vocab=VOCAB)
    data = TokenData.open(made.path)
    train = np.concatenate([data.train.document(i) for i in range(data.train.n_documents)])
    halves: dict[str, list[Any]] = {"tune": [], "val": []}
    sizes: dict[str, int] = {"tune": 0, "val": 0}
    for number in range(data.val.n_documents):
        name = "tune" if number % 2 else "val"
        if sum(len(one) for one in halves[name]) < SCORED_TOKENS:
            halves[name].append(data.val.document(number))
            sizes[name] += int(data.val.document_bytes[number])
    np.save(folder / "train.npy", train)
    for name, parts in halves.items():
        np.save(folder / f"{name}.npy", np.concatenate(parts))
    said = {"vocab": VOCAB, **{f"{name}_bytes": size for name, size in sizes.items()}}
    (folder / "data.json").write_text(json.dumps(said))


def programs(folder: Path) -> list[Subject]:
    """Ours in both families, and every peer that runs here."""
    here = Path(sys.executable)
    python = peer_python("train")
    named = [("umsicht", here), ("umsicht-fast", here)]
    if python:
        named += [("litgpt", python), ("transformers", python)]
        named += [(name, python) for name, folder in FOLDERS.items() if os.environ.get(folder)]
    return [Subject(name, path, folder) for name, path in named]


Scores = dict[str, list[float]]


def shares_of(name: str, label: str) -> list[float]:
    """Which shares of a budget a program is run for: ours also for those at which it is held against a peer."""
    against = [SHARE] + ([NANOCHAT_SHARE[label]] if os.environ.get("NANOCHAT_DIR") else [])
    return sorted({1.0, *against}, reverse=True) if name.startswith("umsicht") else [1.0]


def turn(subject: Subject, label: str, seed: int, rate: float) -> list[tuple[str, dict[str, float]]]:
    """One seed of one program: the whole budget, and for ours the shares of it."""
    return [
        (keyed(subject.name, share), subject.train(share * BUDGETS[label], seed, rate))
        for share in shares_of(subject.name, label)
    ]


def keyed(name: str, share: float) -> str:
    """A program at a share of the budget."""
    return name if share == 1.0 else f"{name} at {share:g}"


def compare(page: Bench, subjects: list[Subject], label: str, rates: dict[str, float]) -> None:
    """All programs at one budget, and ours at shares of it, seeds in turn, two programs at a time."""
    scores: Scores = {}
    read: dict[str, float] = {}
    for seed in SEEDS if label in CHOSEN else ():
        with ThreadPoolExecutor(AT_ONCE) as pool:
            turns = [pool.submit(turn, subject, label, seed, rates[subject.name]) for subject in subjects]
        for key, made in (pair for future in turns for pair in future.result()):
            scores.setdefault(key, []).append(made["bpb"])
            read[key] = made["tokens"]
            print(f"  {label} seed {seed} {key}: {made['bpb']:.3f}, {made['tokens']:,} tokens", flush=True)
    if scores:
        _table(page, label, scores, read)
    for peer, share in (*((name, SHARE) for name in ADAMW), ("nanochat", NANOCHAT_SHARE[label])):
        for ours in ("umsicht", "umsicht-fast"):
            theirs, mine = scores.get(peer), scores.get(keyed(ours, share))
            gain = statistics.fmean(theirs) - statistics.fmean(mine) if theirs and mine else None
            page.figure(
                f"{label}: {peer}'s bits per byte - {ours}'s at {share:g} of its time",
                gain,
                ">= 0",
                note="" if gain is not None else _missing(peer, label),
            )


def _missing(peer: str, label: str) -> str:
    """Why a peer has no score."""
    if label not in CHOSEN:
        return "this budget was not run"
    folder = FOLDERS.get(peer)
    return f"not here: {folder} is not set" if folder and not os.environ.get(folder) else "did not start"


def _table(page: Bench, label: str, scores: Scores, read: dict[str, float]) -> None:
    rows = [
        f"| {key} | {statistics.fmean(values):.3f} | {', '.join(f'{v:.3f}' for v in values)} | {read[key]:,} |"
        for key, values in scores.items()
    ]
    head = "| program | bits per byte | by seed | tokens read |\n|---|---|---|---|"
    page.section(f"## {label} of one processor\n\n" + "\n".join([head, *rows]))


def main() -> None:
    """Tune, then compare."""
    page = Bench("quality", str(__doc__).split("\n\n", 1)[1].replace("\n", " ").strip())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        subjects = [subject for subject in programs(folder) if subject.is_ready]
        try:
            rates: dict[str, float] = {}
            lines: list[str] = []
            with ThreadPoolExecutor(AT_ONCE) as pool:
                tuned = list(pool.map(Subject.tuned, subjects))
            for subject, (rate, said) in zip(subjects, tuned, strict=True):
                rates[subject.name] = rate
                lines += said
            head = "| program | rate (ours: factor) | bits per byte, tuning split |\n|---|---|---|"
            page.section("## Rates tried\n\n" + "\n".join([head, *lines]))
            for label in BUDGETS:
                compare(page, subjects, label, rates)
        finally:
            for subject in subjects:
                subject.close()
    page.finish()


if __name__ == "__main__":
    main()
