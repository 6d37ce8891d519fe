"""`make bench-quality`: bits per byte for equal processor time, ours against peers in their own environment.

Each program trains the same shape (width 128, 4 layers, 4,096 tokens of vocabulary, float32, one thread) on the same windows with its own recipe and
schedule, and gets the same number of tries at its learning rate, scored on a split that the comparison never sees. The question is what share of a
peer's processor time ours needs for the peer's mean score: half for AdamW recipes. As many programs run at a time as there are cores, one thread each.
Repositories that are not on PyPI are run from NANOGPT_DIR and NANOCHAT_DIR; against nanochat's own recipe the bar is 0.85 of its time, and at 24 seconds
all of it. QUALITY_BUDGETS and QUALITY_PROGRAMS name what a start may train; trainings made before by the same code are kept and joined.
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
from bench.kept import Kept, code_id
from bench.peers.environment import HERE as PEERS
from bench.peers.environment import peer_python
from bench.plan.corpus import tokens
from bench.program import Program
from umsicht.recipe.train import OptimizerSettings, ScheduleSettings
from umsicht.record import content_id, file_digest
from umsicht.tokens import TokenData

BUDGETS = {"24 s": 24.0, "2 min": 120.0, "10 min": 600.0}
# Which of them are trained: all takes hours; what is left out is shown as not measured.
CHOSEN = os.environ.get("QUALITY_BUDGETS", "24 s" if QUICK else "24 s,2 min").split(",")
PROGRAMS = ("umsicht", "umsicht-fast", "litgpt", "transformers", "nanogpt", "nanochat")
WANTED = os.environ.get("QUALITY_PROGRAMS", ",".join(PROGRAMS)).split(",")
SEEDS = (0, 1, 2)
TUNING_S = 24.0
AT_ONCE = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
"""Programs that run at the same time, each on one thread."""
# Peers name a rate, ours a factor on its default rates; three tries each, a doubling or so apart, the best of an earlier start in their middle.
RATES = {"umsicht": (0.5, 1.0, 2.0), "nanochat": (0.6, 1.2, 2.4), "peer": (2e-3, 5e-3, 1.2e-2)}
ADAMW = ("litgpt", "transformers", "nanogpt")
SHARE, NANOCHAT_SHARE = 0.5, {"24 s": 1.0, "2 min": 0.85, "10 min": 0.85}
FOLDERS = {"nanogpt": "NANOGPT_DIR", "nanochat": "NANOCHAT_DIR"}
VOCAB, SCORED_TOKENS = 4096, 25_000
# What decides a training, of ours and of a peer: a change there makes it anew.
SUBJECTS = ROOT / "bench" / "quality" / "subjects.py"
OURS = [
    ROOT / "src" / "umsicht" / "model",
    ROOT / "src" / "umsicht" / "score" / "loss.py",
    *(
        ROOT / "src" / "umsicht" / "train" / f"{name}.py"
        for name in ("adamw", "groups", "muon", "objective", "optimizer", "reduction", "schedule")
    ),
]
THEIRS = [PEERS / "models.py", PEERS / "train-requirements.txt"]


class Subject:
    """A program that is started in a process of its own once something has to be trained."""

    def __init__(self, name: str, python: Path, folder: Path, kept: Kept) -> None:
        self.name = name
        self.is_ours = name.startswith("umsicht")
        self._start = (python, SUBJECTS, [name, str(folder)])
        self._kept = kept
        self._program: Program | None = None
        self._made_of = {
            "program": name,
            "code": code_id([SUBJECTS, *(OURS if self.is_ours else THEIRS), *_checkout(name)]),
            "defaults": [OptimizerSettings().plain(), ScheduleSettings().plain()] if self.is_ours else [],
            "data": [file_digest(str(folder / f"{split}.npy")) for split in ("train", "tune", "val")],
        }

    def train(
        self, cpu_s: float, seed: int, rate: float, split: str = "val", *, wanted: bool = True
    ) -> dict[str, float] | None:
        """One training, made before or now; None where it was not made and is not wanted, or where the program does not start."""
        order = {"cpu_s": cpu_s, "seed": seed, "rate": rate, "split": split}
        key = content_id({**self._made_of, **order})
        answer = self._kept.get(key)
        if answer is None and wanted and self._is_running():
            assert self._program is not None
            answer = self._program.ask(json.dumps(order))
            self._kept.put(key, answer, {"program": self.name, **order})
            print(f"  {self.name}, {cpu_s:g} s, seed {seed}, rate {rate:g}: {answer['bpb']:.3f}", flush=True)
        return answer

    def _is_running(self) -> bool:
        if self._program is None and self.name in WANTED:
            self._program = Program(*self._start)
        return self._program is not None and self._program.is_ready

    def tuned(self) -> tuple[float | None, list[str]]:
        """The best of its three rates on the tuning split, and the lines of the table."""
        rates = RATES.get(self.name.partition("-")[0], RATES["peer"])
        made = {rate: self.train(TUNING_S, 100, rate, "tune") for rate in rates}
        scores = {rate: answer["bpb"] for rate, answer in made.items() if answer is not None}
        said = [f"| {self.name} | {rate:g} | {score:.3f} |" for rate, score in scores.items()]
        return min(scores, key=lambda rate: scores[rate]) if len(scores) == len(rates) else None, said

    def close(self) -> None:
        """End the process."""
        if self._program is not None:
            self._program.close()


def _checkout(name: str) -> list[Path]:
    """What a program takes from a folder named by a variable."""
    files = {"nanogpt": ("model.py",), "nanochat": ("nanochat/gpt.py", "nanochat/optim.py")}
    folder = os.environ.get(FOLDERS.get(name, ""), "")
    return [Path(folder) / file for file in files.get(name, ())] if folder else []


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
    kept = Kept(ROOT / "build" / "bench" / "quality-runs.jsonl")
    here, python = Path(sys.executable), peer_python("train")
    found = []
    for name in PROGRAMS:
        missing = name in FOLDERS and not os.environ.get(FOLDERS[name])
        interpreter = here if name.startswith("umsicht") else python
        if interpreter is not None and not missing:
            found.append(Subject(name, interpreter, folder, kept))
    return found


Scores = dict[str, list[float]]


def rivals(label: str) -> dict[str, float]:
    """The peers, each with the share of its time that ours gets."""
    return {**dict.fromkeys(ADAMW, SHARE), "nanochat": NANOCHAT_SHARE[label]}


def shares_of(subject: Subject, label: str) -> list[float]:
    """Which shares of a budget a program is run for: ours for those at which it is held against a peer."""
    here = [
        share for name, share in rivals(label).items() if name != "nanochat" or os.environ.get("NANOCHAT_DIR")
    ]
    return sorted(set(here), reverse=True) if subject.is_ours else [1.0]


def is_wanted(subject: Subject, label: str, share: float) -> bool:
    """Whether a start trains this: of ours only what a wanted peer is held against, or all where no peer is named."""
    shares = rivals(label)
    named = [name for name in shares if name in WANTED] or list(shares)
    return label in CHOSEN and (not subject.is_ours or share in {shares[name] for name in named})


def turn(subject: Subject, label: str, seed: int, rate: float) -> list[tuple[str, dict[str, float]]]:
    """One seed of one program: a peer for the whole budget, ours for the shares of it that are compared."""
    made = [
        (
            keyed(subject.name, share),
            subject.train(share * BUDGETS[label], seed, rate, wanted=is_wanted(subject, label, share)),
        )
        for share in shares_of(subject, label)
    ]
    return [(key, answer) for key, answer in made if answer is not None]


def keyed(name: str, share: float) -> str:
    """A program at a share of the budget."""
    return name if share == 1.0 else f"{name} at {share:g}"


def compare(page: Bench, subjects: list[Subject], label: str, rates: dict[str, float]) -> None:
    """All programs at one budget, ours at shares of it, seeds in turn."""
    scores: Scores = {}
    read: dict[str, float] = {}
    for seed in SEEDS:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            turns = [pool.submit(turn, subject, label, seed, rates[subject.name]) for subject in subjects]
        for key, made in (pair for future in turns for pair in future.result()):
            scores.setdefault(key, []).append(made["bpb"])
            read[key] = made["tokens"]
    if scores:
        _table(page, label, scores, read)
    for peer, share in rivals(label).items():
        for ours in ("umsicht", "umsicht-fast"):
            theirs, mine = scores.get(peer, []), scores.get(keyed(ours, share), [])
            whole = len(theirs) == len(mine) == len(SEEDS)
            page.figure(
                f"{label}: {peer}'s bits per byte - {ours}'s at {share:g} of its time",
                statistics.fmean(theirs) - statistics.fmean(mine) if whole else None,
                ">= 0",
                note=_by_seed(theirs, mine) if whole else _missing(peer, ours, len(theirs), len(mine)),
            )


def _by_seed(theirs: list[float], mine: list[float]) -> str:
    """The spread of a comparison: least and greatest difference of a seed."""
    gaps = [a - b for a, b in zip(theirs, mine, strict=True)]
    return f"by seed {min(gaps):.3f} to {max(gaps):.3f}"


def _missing(peer: str, ours: str, theirs: int, mine: int) -> str:
    """Why there is no comparison."""
    folder = FOLDERS.get(peer)
    if folder and not os.environ.get(folder):
        return f"not here: {folder} is not set"
    return f"seeds run: {theirs} of {peer}, {mine} of {ours}, of {len(SEEDS)}"


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
        subjects = programs(folder)
        try:
            rates: dict[str, float] = {}
            lines: list[str] = []
            with ThreadPoolExecutor(AT_ONCE) as pool:
                tuned = list(pool.map(Subject.tuned, subjects))
            for subject, (rate, said) in zip(subjects, tuned, strict=True):
                lines += said
                if rate is not None:
                    rates[subject.name] = rate
            head = "| program | rate (ours: factor) | bits per byte, tuning split |\n|---|---|---|"
            page.section("## Rates tried\n\n" + "\n".join([head, *lines]))
            for label in BUDGETS:
                compare(page, [subject for subject in subjects if subject.name in rates], label, rates)
        finally:
            for subject in subjects:
                subject.close()
    page.finish()


if __name__ == "__main__":
    main()
