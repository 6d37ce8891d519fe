"""`make bench-defaults`: what each default of training and of the model is worth, one change at a time.

A small model (width 64, 4 layers, 1,024 tokens of vocabulary, rows of 128) is trained on 128,000 tokens of the Python library's sources and documentation
strings, 1,024 tokens a step, once with the defaults and once with one of them changed, with the same seeds (starting weights and order of data). The
figure is the difference in bits per byte on held-out text, mean over the seeds with its 95 % interval (Student's t over the pairs): positive where the default is
better. Tokens are equal, not time; the last column says what a change costs in processor time. No figure has a target: what loses is shown like what wins.
"""

from __future__ import annotations

import math
import os
import statistics
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from bench.common import QUICK, ROOT, Bench
from bench.defaults.training import Text, train
from bench.defaults.variants import LAYERS, LENGTH, ROWS, VARIANTS, VOCAB, WIDTH, Variant
from bench.kept import Kept, code_id
from bench.plan.corpus import tokens
from bench.train.__main__ import T95
from umsicht.record import content_id
from umsicht.tokens import TokenData

SEEDS = tuple(range(int(os.environ.get("DEFAULTS_SEEDS", "3"))))
TOKENS = 16_000 if QUICK else 128_000
SCORED_TOKENS = 40_000
TRAINS = os.environ.get("DEFAULTS_TRAIN", "1") == "1"
"""0 makes the page of what was trained before."""
FOLDER = ROOT / "build" / "bench" / "defaults"
T95_OF_TWO = {1: 12.706, **T95}


def text() -> Text:
    """The corpus, made once."""
    _, made = tokens(FOLDER, vocab=VOCAB)
    data = TokenData.open(made.path)
    parts = {
        split.name: np.concatenate([split.document(i) for i in range(split.n_documents)]).astype(np.int64)
        for split in (data.train, data.val)
    }
    share = SCORED_TOKENS / len(parts["val"])
    scored = parts["val"][:SCORED_TOKENS]
    return Text(parts["train"], scored, int(int(data.val.document_bytes.sum()) * share))


def made(kept: Kept, corpus: Text, variant: Variant, seed: int) -> dict[str, float] | None:
    """One training, kept from an earlier start where there was one; None where it is left out."""
    here = Path(__file__).parent / "training.py"
    sizes = [WIDTH, LAYERS, VOCAB, LENGTH, ROWS, TOKENS, SCORED_TOKENS]
    key = content_id([variant.name, seed, sizes, code_id([here])])
    answer = kept.get(key)
    if answer is None and TRAINS:
        answer = train(variant, corpus, TOKENS, seed)
        kept.put(key, answer, {"variant": variant.name, "seed": seed})
        print(f"  {variant.name}, seed {seed}: {answer['bpb']:.4f}, {answer['cpu_s']:.1f} s", flush=True)
    return answer


def half_width(differences: list[float]) -> float:
    """Half of the 95 % interval of their mean."""
    n = len(differences)
    return T95_OF_TWO[n - 1] * statistics.stdev(differences) / math.sqrt(n)


def row(page: Bench, variant: Variant, own: list[dict[str, float]], base: list[dict[str, float]]) -> str:
    """One line of the table; the figure is printed beside it."""
    differences = [mine["bpb"] - theirs["bpb"] for mine, theirs in zip(own, base, strict=True)]
    mean, half = statistics.fmean(differences), half_width(differences)
    verdict = "default better" if mean > half else "change better" if -mean > half else "no difference shown"
    cost = statistics.median(mine["cpu_s"] / theirs["cpu_s"] for mine, theirs in zip(own, base, strict=True))
    each = ", ".join(f"{answer['bpb']:.3f}" for answer in own)
    page.figure(f"{variant.name} - {variant.against}", mean, note=f"± {half:.3f}: {verdict}")
    return (
        f"| {variant.name} | {variant.against} | {each} | {mean:+.3f} ± {half:.3f} | {verdict} | {cost:.2f} |"
    )


def main() -> None:
    """Train what was not trained before, then write the table."""
    torch.set_num_threads(1)
    page = Bench("defaults", str(__doc__).split("\n\n", 1)[1].replace("\n", " ").strip())
    kept, corpus = Kept(ROOT / "build" / "bench" / "defaults-runs.jsonl"), text()
    answers = {
        variant.name: [made(kept, corpus, variant, seed) for seed in SEEDS]
        for variant in (VARIANTS[:2] if QUICK else VARIANTS)
    }
    whole = {name: [one for one in own if one is not None] for name, own in answers.items()}
    done = [v for v in VARIANTS[1:] if len(whole.get(v.name, [])) == len(SEEDS)]
    lines = [row(page, variant, whole[variant.name], whole[variant.against]) for variant in done]
    left = [v.name for v in VARIANTS[1:] if v not in done]
    head = "| change | against | bits per byte by seed | difference | verdict | processor time × |\n|---|---|---|---|---|---|"
    base = ", ".join(f"{answer['bpb']:.3f}" for answer in whole["default"])
    page.section(f"## Runs\n\nDefault: {base} bits per byte.\n\n" + "\n".join([head, *lines]))
    if left:
        page.section(f"Not run: {', '.join(left)}.")
    page.section((Path(__file__).parent / "notes.md").read_text().strip())
    page.finish()


if __name__ == "__main__":
    main()
