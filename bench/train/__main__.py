"""`make bench-train`: tokens a second of a training step, ours against peers in their own environment, in interleaved pairs.

Every program runs one process that stays warm; a pair is one stretch of ours and one of the peer, back to back, so that a busy machine
slows both. Ratios are of processor time where both use one thread; wall time stands beside them.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.common import QUICK, ROOT, Bench
from bench.peers.environment import peer_python
from bench.program import Program
from bench.train.subjects import LENGTH, TOKENS
from umsicht.train.machine import choose_precision

PAIRS = 3 if QUICK else 10
STRETCH_S = 2.0 if QUICK else 3.0
TRY_S = 2.0
MICRO_BATCHES = (8, 4, 2)
THREADS = 1
# Two-sided 95 % points of Student's t by degrees of freedom.
T95 = {2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
# 6 FLOP a weight and token in the products, and 12·layers·length·width/2 a token in causal attention.
WEIGHTS = 6 * (4 * 384 * 384 + 3 * 384 * 1024) + 4096 * 384
FLOP_PER_TOKEN = 6 * WEIGHTS + 6 * 6 * 256 * 384


class Subject(Program):
    """A program under test in its own process."""

    def __init__(self, python: Path, name: str, precision: str = "float32") -> None:
        super().__init__(
            python,
            ROOT / "bench" / "train" / "subjects.py",
            [name, "--precision", precision, "--threads", str(THREADS)],
            {"OMP_NUM_THREADS": str(THREADS)},
        )

    def at_its_best(self) -> tuple[int, dict[int, float]]:
        """Try every micro-batch twice, set the fastest; tokens a processor second of each."""
        rates: dict[int, float] = {}
        for rows in (*MICRO_BATCHES, *MICRO_BATCHES):
            self.ask(f"rows {rows}")
            rates[rows] = max(rates.get(rows, 0.0), speed(self.ask(f"go {TRY_S}")))
        best = max(rates, key=lambda rows: rates[rows])
        self.ask(f"rows {best}")
        return best, rates


@dataclass(frozen=True)
class Ratio:
    """Geometric mean of paired ratios, and the lower end of its two-sided 95 % interval."""

    mean: float
    lower: float

    @classmethod
    def of(cls, ratios: list[float]) -> Ratio:
        logs = [math.log(r) for r in ratios]
        mean = statistics.fmean(logs)
        half = T95[len(logs) - 1] * statistics.stdev(logs) / math.sqrt(len(logs))
        return cls(math.exp(mean), math.exp(mean - half))


def speed(answer: dict[str, float], clock: str = "cpu_s") -> float:
    """Tokens a processor second, or by another clock."""
    return answer["tokens"] / answer[clock]


def compare(ours: Subject, peer: Subject) -> tuple[Ratio, Ratio, float]:
    """Ratio of ours to the peer by processor and by wall time, and the peer's median speed."""
    pairs, walls = [], list[dict[str, float]]()
    for index in range(PAIRS):
        order = (ours, peer) if index % 2 == 0 else (peer, ours)
        answers = [subject.ask(f"go {STRETCH_S}") for subject in order]
        first, second = (speed(a) for a in answers)
        pairs.append((first, second) if order[0] is ours else (second, first))
        walls.append(answers[0 if order[0] is ours else 1])
        walls.append(answers[1 if order[0] is ours else 0])
    ratio = Ratio.of([a / b for a, b in pairs])
    wall = [
        speed(mine, "wall_s") / speed(theirs, "wall_s")
        for mine, theirs in zip(walls[::2], walls[1::2], strict=True)
    ]
    return ratio, Ratio.of(wall), statistics.median(b for _, b in pairs)


def peers() -> list[tuple[str, Path]]:
    """Peers that can run here, each with its Python."""
    python = peer_python("train")
    found = [("transformers", python), ("litgpt", python)] if python else []
    if python and os.environ.get("NANOGPT_DIR"):
        found.append(("nanogpt", python))
    return found


@dataclass(frozen=True)
class Row:
    """One comparison: who, at how many rows at once, the peer's speed, and the ratios."""

    label: str
    micro: int
    theirs: float
    ratio: Ratio
    wall: Ratio

    def note(self) -> str:
        """Everything about it but the ratio itself."""
        return (
            f"{self.theirs:,.0f} tokens a processor second at {self.micro} rows at once; lower 95 % bound {self.ratio.lower:.3f}; "
            f"by wall time {self.wall.mean:.3f} (lower bound {self.wall.lower:.3f})"
        )


def against(bench: Bench, ours: Subject, suffix: str, precision: str) -> list[Row]:
    """Ours against every peer that starts."""
    rows = []
    for name, python in peers():
        peer = Subject(python, name + suffix, precision)
        label = f"{name}{suffix.replace('-', ', ')}, {precision}"
        try:
            if not peer.is_ready:
                bench.figure(label, None, note="did not start")
                continue
            # Another number of rows would compile everything again.
            micro = TOKENS // LENGTH if suffix else peer.at_its_best()[0]
            ratio, wall, theirs = compare(ours, peer)
        finally:
            peer.close()
        rows.append(Row(label, micro, theirs, ratio, wall))
    return rows


def shares_of_the_ceiling(bench: Bench, subjects: list[tuple[Subject, str, str]]) -> None:
    """Floating-point work of the step over what products alone reach, measured in turns: forward ones (the bar), and all a step is made of."""
    for subject, label, target in subjects:
        shares: dict[str, list[float]] = {"ceiling": [], "products": []}
        for _ in range(min(PAIRS, 6)):
            for order, found in shares.items():
                top = subject.ask(f"{order} 1.0")["gflop_per_cpu_s"]
                found.append(100 * speed(subject.ask(f"go {STRETCH_S}")) * FLOP_PER_TOKEN / 1e9 / top)
        of_step = statistics.median(shares["products"])
        note = f"{of_step:.0f} % of what all products of a step reach alone, gradients' too"
        bench.figure(
            f"share of the product ceiling, {label}",
            statistics.median(shares["ceiling"]),
            target,
            unit="%",
            note=note,
        )


def main() -> None:
    here = Path(sys.executable)
    chosen, measured = choose_precision("auto", "cpu")
    bench = Bench(
        "train",
        "Speed of one training step at 10.6 M weights in the blocks, 256-token rows, 2,048 tokens a step. `compiled` is what a run of "
        "15 minutes and more gets from `compile: auto`; compiling itself is not counted, it is kept for the next run.",
        page="" if chosen == "bfloat16" else f"train_{chosen}",
    )
    subjects = {name: Subject(here, name, chosen) for name in ("umsicht", "umsicht-muon", "umsicht-compiled")}
    eager, muon, compiled = subjects.values()
    try:
        shares_of_the_ceiling(
            bench,
            [
                (eager, "AdamW", ">= 70"),
                (muon, "Muon, whole default step", ">= 60"),
                (compiled, "AdamW, compiled", ""),
            ],
        )
        slower = measured.get("bfloat16_product_s", 0.0) / measured.get("float32_product_s", 1.0)
        bench.figure(
            "bfloat16 product / float32 product, seconds", slower, note=f"so the step runs in {chosen}"
        )
        eager.at_its_best()
        by_hand = against(bench, eager, "", chosen)
        for row in by_hand:
            bench.figure(f"ours, eager / {row.label}", row.ratio.mean, note=row.note())
        best = against(bench, compiled, "", chosen)
        fastest = max(best, key=lambda row: row.theirs, default=None)
        for row in best:
            bench.figure(
                f"ours / {row.label}", row.ratio.mean, ">= 1.15" if row is fastest else "", note=row.note()
            )
        bench.figure(
            "lower 95 % bound over the fastest peer", fastest.ratio.lower if fastest else None, ">= 1.05"
        )
        for row in against(bench, compiled, "", "float32") if chosen != "float32" else ():
            bench.figure(f"ours / {row.label}, the default", row.ratio.mean, ">= 2", note=row.note())
        both = against(bench, compiled, "-compiled", chosen)
        for row in both:
            bench.figure(f"ours / {row.label}", row.ratio.mean, note=row.note())
        lowest = min((row.ratio.lower for row in both), default=None)
        bench.figure("lower 95 % bound over compiled peers", lowest, ">= 1")
        if not best:
            print("no peer environment; see bench/peers/README.md")
    finally:
        for subject in subjects.values():
            subject.close()
    bench.finish()


if __name__ == "__main__":
    main()
