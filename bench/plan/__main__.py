"""`make bench-plan`: does a plan come true, on trainings that were not used to make it?

A ladder of small models is measured; then ten larger or longer trainings of the same family are predicted (bits a byte, time, memory), run for real, and
compared; none of the ten was used to fit. Times are processor time on one thread, divided by the time of a fixed reference workload taken around each training, because machines
are shared. The memory formula is compared with the operating system's count in a process of its own. The
mistakes that a plan must name (a language missing from the tokenizer's sample, a budget without restart, a context that nothing fills) are planted.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from bench.common import QUICK, ROOT
from bench.common import Bench as Page
from bench.plan.corpus import tokens
from umsicht.model import ModelConfig, derive
from umsicht.plan import context
from umsicht.plan.budget import Workload, check
from umsicht.plan.grade import Grade
from umsicht.plan.measure import laws, step_seconds
from umsicht.plan.trial import PROBE_STEPS, Bench, Trial, run_trial, settled_trial
from umsicht.recipe.model import ModelSettings
from umsicht.recipe.plan import PlanSettings
from umsicht.recipe.tokenizer import TokenizerSettings
from umsicht.recipe.tokens import TokensSettings
from umsicht.recipe.train import TrainSettings, ValidationSettings
from umsicht.record.progress import QUIET
from umsicht.tokenizer import Sample, Tokenizer, parallel, train
from umsicht.tokenizer.report import report
from umsicht.tokens import TokenData

SEQ_LEN, BATCH = 64, 512
# (d_model, steps)
LADDER = [(32, 100), (32, 200), (48, 100), (32, 400), (48, 200), (64, 100), (64, 200)]
TARGETS = [
    (64, 300),
    (64, 500),
    (80, 250),
    (96, 150),
    (96, 250),
    (48, 600),
    (80, 400),
    (112, 200),
    (96, 400),
    (128, 200),
]
if QUICK:
    LADDER, TARGETS = LADDER[:4], TARGETS[:2]


def reference_seconds() -> float:
    """Processor seconds of a fixed amount of the work that training does: products, and passes over memory."""
    torch.set_num_threads(1)
    a, b, c = torch.ones(512, 128), torch.ones(128, 512), torch.ones(512, 512)
    times = []
    for _ in range(5):
        start = time.process_time()
        for _ in range(20):
            d = a @ b
            c = torch.nn.functional.silu(d) * c.mean()
        times.append(time.process_time() - start)
    return statistics.median(times)


def settings() -> TrainSettings:
    """The family's training."""
    return TrainSettings(
        global_batch_tokens=BATCH,
        threads=1,
        precision="float32",
        compile="off",
        validation=ValidationSettings(slice_bytes=40_000, train_bytes=0),
    )


def config(width: int, n_tokens: int) -> ModelConfig:
    """A model of the family."""
    return derive(ModelSettings(d_model=width, n_layers=3, seq_len=SEQ_LEN), n_tokens)


def predictions(page: Page, bench: Bench) -> None:
    """Measure the ladder, predict the targets, run them, grade."""
    n_tokens = bench.data.n_tokens
    ladder, references = [], []
    for width, steps in LADDER:
        references.append(reference_seconds())
        ladder.append(run_trial(bench, config(width, n_tokens), steps))
    base = statistics.median(references)
    law = laws(ladder)
    errors: dict[str, list[float]] = {"loss": [], "fit": [], "probe": []}
    inside, widths, lines, reals = 0, [], [], []
    for width, steps in TARGETS:
        model = config(width, n_tokens)
        before = reference_seconds()
        probe = settled_trial(bench, model, slice_bytes=2_000)
        real = run_trial(bench, model, steps)
        speed = statistics.mean((before, reference_seconds()))
        made = law["all"].predict(real.body_parameters, real.tokens)
        graded = Grade("bpb", made.value, made.low, made.high, real.bpb["all"], 0.03)
        inside += bool(graded.inside)
        widths.append((made.high - made.low) / 2 / made.value)
        errors["loss"].append(abs(graded.error))
        taken = real.cpu_step_s / speed
        errors["fit"].append(abs(step_seconds(ladder, real.flops_training, cpu=True) / base / taken - 1))
        errors["probe"].append(abs(probe.cpu_step_s / speed / taken - 1))
        reals.append(real)
        lines.append(_line(width, steps, real, graded))
        print(lines[-1], flush=True)
    n = len(TARGETS)
    kept = [e for e in errors["loss"] if e <= 0.03]
    page.figure(
        "bits per byte: median error",
        statistics.median(errors["loss"]),
        "<= 0.03",
        note=f"{len(kept)} of {n} trainings within 3 %",
    )
    page.figure("bits per byte: largest error", max(errors["loss"]))
    page.figure(
        "80 % intervals: share that held",
        inside / n,
        ">= 0.7",
        note=f"{inside} of {n} trainings that were not used to fit",
    )
    page.figure("80 % intervals: widest half-width", max(widths), "<= 0.1")
    page.figure(
        "time a step from a plan's trial: median error",
        statistics.median(errors["probe"]),
        "<= 0.1",
        note="CPU, normalised by the reference workload",
    )
    page.figure(
        "time a step from the ladder alone: median error",
        statistics.median(errors["fit"]),
        "<= 0.1",
        note="CPU, normalised; the model itself never run",
    )
    head = "| d_model | steps | tokens | predicted | 80 % interval | came out | error |\n|---|---|---|---|---|---|---|"
    page.section(
        "Ladder: " + ", ".join(f"{w} × {s} steps" for w, s in LADDER) + ".\n\n" + "\n".join([head, *lines])
    )
    page.extra["ladder"] = [trial.to_dict() for trial in ladder]
    page.extra["targets"] = [trial.to_dict() for trial in reals]


def _line(width: int, steps: int, real: Trial, graded: Grade) -> str:
    return (
        f"| {width} | {steps} | {real.tokens:,} | {graded.predicted:.3f} | {graded.low:.3f} – {graded.high:.3f} | {graded.actual:.3f} | "
        f"{100 * graded.error:+.1f} % |"
    )


MEMORY_CASES = [(256, 4, "muon", 8), (384, 4, "adamw", 4), (512, 3, "muon", 4)]


def memory(page: Page, folder: Path) -> None:
    """The count of tensors against an allocator that keeps nothing; a plan's own trial against a longer run with the allocator as it is."""
    counted, foreseen = [], []
    for case in MEMORY_CASES[: 1 if QUICK else None]:
        width, layers, kind, rows = case
        label = f"d {width}, {layers} layers, {kind}, {rows} rows"
        bare = peak(folder, case, 3, {"MALLOC_MMAP_THRESHOLD_": "32768"})
        counted.append(bare["tensors"] / bare["measured"])
        page.figure(
            f"memory: tensors counted ÷ measured, {label}",
            counted[-1],
            note=f"{bare['tensors'] / 1e6:.0f} against {bare['measured'] / 1e6:.0f} MB, every block mapped alone",
        )
        trial, run = peak(folder, case, PROBE_STEPS, {}), peak(folder, case, 3 * PROBE_STEPS, {})
        foreseen.append(trial["measured"] / run["measured"])
        page.figure(
            f"memory: trial of {PROBE_STEPS} steps ÷ run, {label}",
            foreseen[-1],
            note=f"{trial['measured'] / 1e6:.0f} against {run['measured'] / 1e6:.0f} MB; formula with surplus {run['predicted'] / 1e6:.0f} MB",
        )
    page.figure("memory: largest error of the count of tensors", _largest(counted), "<= 0.1")
    page.figure("memory: largest error of a plan, whose trial measures it", _largest(foreseen), "<= 0.1")


def _largest(ratios: list[float]) -> float:
    return max(abs(ratio - 1) for ratio in ratios)


def peak(
    folder: Path, case: tuple[int, int, str, int], steps: int, variables: dict[str, str]
) -> dict[str, float]:
    """One training in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.plan.peak", str(folder), *map(str, case), str(steps)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    said: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return said


def planted(page: Page, data: TokenData, folder: Path) -> None:
    """The three mistakes of this room, planted."""
    sentences = parallel.built_in()
    documents = [
        Sample(s * 3, language, "prose") for language in ("en", "ru") for s in sentences[language] * 30
    ]
    wanted = TokenizerSettings(vocab_size=400, languages=["en", "ru"], shares={"en": 1})
    said = train(wanted, lambda: documents, folder / "planted", QUIET)
    found = report(Tokenizer.load(folder / "planted"), wanted, documents, sample=said["sample"])["findings"]
    ids = {finding["id"] for finding in found}
    page.figure(
        "planted: language missing from the sample is named",
        float("TOKENIZER/language-missing" in ids),
        "== 1",
    )
    work = Workload(steps=1000, step_s=1.0, checkpoints=2, checkpoint_s=5.0, steps_between_checkpoints=500)
    short = PlanSettings(device_hours=work.training_s / 3600 * 1.05, reserve=0.0)
    named = {f.id for f in check(work, short, tokens_seen=1e9, usable_tokens=1e9, parameters=10_000_000)}
    page.figure(
        "planted: budget that one restart breaks is named",
        float("BUDGET/restart-not-covered" in named),
        "== 1",
    )
    short_documents = data.train.select(np.flatnonzero(data.train.lengths < 300))
    model = derive(ModelSettings(d_model=64, seq_len=4096), data.n_tokens)
    unfilled = {f.id for f in context.findings(context.analyse(short_documents, model), model, "concatenate")}
    page.figure("planted: context that nothing fills is named", float("CONTEXT/unfilled" in unfilled), "== 1")


def main() -> None:
    """Run all parts."""
    page = Page("plan", str(__doc__).split("\n\n", 1)[1].replace("\n", " ").strip())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _, made = tokens(folder)
        data = TokenData.open(made.path)
        planted(page, data, folder)
        predictions(page, Bench(data, TokensSettings(), settings()))
        memory(page, made.path)
    page.finish()


if __name__ == "__main__":
    main()
