"""`make bench-curves`: the diagnosis on runs whose state is known because it was made.

The records under `records/` were made by `python -m bench.curves.make`; the first part served to set the thresholds, the second (other text,
other model size, other seeds, never looked at before) is scored. One curve of the first part is trained again and compared with its record.
"""

from __future__ import annotations

import gzip
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from bench.common import QUICK, Bench, data_folder
from bench.curves import summaries
from bench.curves.states import SETTING, Case, cases
from umsicht.diagnose import Diagnosis, diagnose, judge
from umsicht.diagnose.curves import Damage
from umsicht.diagnose.logs.rows import Columns, build
from umsicht.diagnose.record_reader import from_metrics
from umsicht.record.metrics import Metrics

RECORDS = Path(__file__).parent / "records"
ABOUT = (
    "Every curve is the record of a small byte-level transformer that was really trained into the state its name says: the label follows "
    "from how it was made. Thresholds were set on the first part (standard library, 48 wide, 2 layers; novels, 56 wide, 1 layer; "
    "speeches and technical pages, 40 wide, 2 layers, cut short; the last two were once the scored part and changed the rules), and the "
    "second part (short stories and Don Quijote, 64 wide, 1 layer, other seeds) is scored. A curve counts as right if the "
    "verdict is the made one and every planted event was noticed."
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Scored:
    """One curve and what was said of it."""

    case: Case
    rows: list[Row]
    made: Diagnosis

    @property
    def right(self) -> bool:
        """Verdict as made, planted events noticed."""
        seen = {event.kind for event in self.made.events}
        return self.made.verdict in self.case.verdicts and set(self.case.events) <= seen


def rows_of(path: Path) -> list[Row]:
    """The rows of a record, in order of writing."""
    return [orjson.loads(line) for line in gzip.decompress(path.read_bytes()).split(b"\n") if line]


def curves_of(rows: list[Row], name: str) -> Diagnosis:
    """Diagnose rows as they would be read from a run folder (the last writer of a step wins)."""
    by_step: dict[int, Row] = {}
    for row in rows:
        old = by_step.get(row["step"])
        merge = old is not None and old["segment"] == row["segment"]
        by_step[row["step"]] = {**old, **row} if old is not None and merge else row
    return judge(from_metrics(Metrics(rows=[by_step[step] for step in sorted(by_step)]), name))


def score_half(half: str) -> list[Scored]:
    """Every recorded curve of one half with its diagnosis."""
    found = []
    for case in cases(half):
        path = RECORDS / half / f"{case.name}.jsonl.gz"
        if path.exists():
            rows = rows_of(path)
            found.append(Scored(case, rows, curves_of(rows, case.name)))
    return found


def deletions(scored: list[Scored]) -> tuple[int, int, list[str]]:
    """(tried, uncertain afterwards, those that were not): each cited number deleted from the record in turn."""
    tried = uncertain = 0
    kept: list[str] = []
    for one in scored:
        for item in one.made.evidence:
            rows = [
                {k: v for k, v in row.items() if k != item.metric} if row["step"] == item.step else row
                for row in one.rows
            ]
            verdict = curves_of(rows, one.case.name).verdict
            tried += 1
            uncertain += verdict == "uncertain"
            if verdict != "uncertain":
                kept.append(f"{one.case.name}: {item.metric}@{item.step} → {verdict}")
    return tried, uncertain, kept


def figures_of(bench: Bench, scored: list[Scored], half: str, *, bars: bool) -> None:
    """The figures of one part; only the scored part has bars."""
    healthy = [one for one in scored if one.case.healthy]
    right = sum(one.right for one in scored)
    ill = sum(one.made.ill for one in healthy)
    bench.figure(f"{half}: curves", len(scored))
    bench.figure(f"{half}: healthy among them", len(healthy), ">= 25" if bars else "")
    bench.figure(
        f"{half}: classified right",
        right / max(1, len(scored)),
        ">= 0.95" if bars else "",
        note=f"{right} of {len(scored)}",
    )
    bench.figure(f"{half}: healthy curves called ill", ill, "== 0" if bars else "")
    least = min(len(one.made.evidence) for one in scored)
    bench.figure(f"{half}: fewest numbers cited by a verdict", least, ">= 3" if bars else "")
    used = scored if not QUICK else scored[::5]
    tried, uncertain, kept = deletions(used)
    bench.figure(
        f"{half}: uncertain once a cited number is deleted",
        uncertain / max(1, tried),
        "== 1" if bars else "",
        note=f"{uncertain} of {tried}",
    )
    bench.section(_table(scored, half))
    wrong = [
        f"- {one.case.name}: {one.made.verdict} ({one.made.reason}), made as {'/'.join(one.case.verdicts)}"
        for one in scored
        if not one.right
    ]
    wrong += [f"- still sure without a number: {line}" for line in kept]
    if wrong:
        bench.section(f"## Misses, {half} part\n\n" + "\n".join(wrong))


def _table(scored: list[Scored], half: str) -> str:
    made = Counter(one.case.verdicts[0] for one in scored)
    right = Counter(one.case.verdicts[0] for one in scored if one.right)
    lines = [f"## {half} part", "", "| made as | curves | right |", "|---|---|---|"]
    lines += [f"| {name} | {made[name]} | {right[name]} |" for name in sorted(made)]
    return "\n".join(lines)


def public_curves(bench: Bench) -> None:
    """Published logs with known anomalies; read where they lie."""
    folder = data_folder()
    if folder is None or not (folder / "loss-curves").is_dir():
        bench.figure(
            "published curves called as is known of them", None, "== 1", note="UMSICHT_TEST_DATA is not set"
        )
        return
    root = folder / "loss-curves"
    right = total = 0
    for path in sorted((root / "modded-nanogpt").glob("*.tsv.gz")):
        made = diagnose(path)
        total += 1
        right += made.verdict == "healthy" and _known_spikes(made, path.name)
    for name, verdict in (
        ("llmc-gpt2-124m-healthy.log.gz", "healthy"),
        ("llmc-rerun.log.gz", "healthy"),
        ("llmc-nan-from-step-1.log.gz", "diverged"),
    ):
        total += 1
        right += diagnose(root / name).verdict == verdict
    bench.figure(
        "published curves called as is known of them", right / total, "== 1", note=f"{right} of {total}"
    )


def _known_spikes(made: Diagnosis, name: str) -> bool:
    """The one-step spikes that one data order gave to runs of many optimizers (one less where steps count from 0)."""
    if not name.startswith(("2024-10-29", "2024-11-06", "2024-11-10", "2024-11-24", "2024-12-04")):
        return True
    last = made.facts["last_step"]
    seen = {event.step for event in made.events if event.kind == "spike"}
    known = [step for step in (919, 947, 1760, 3194, 5335, 5462) if step < last]
    return all({step, step - 1} & seen for step in known)


def speed(bench: Bench) -> None:
    """The diagnosis of a record of 100,000 steps, in memory."""
    columns = Columns()
    for step in range(1, 100_001):
        columns.add("train/loss", step, 2.5 + 5 / step**0.4 + 0.05 * ((step * 7919) % 101 - 50) / 50)
        if step % 500 == 0:
            columns.add("val/all/loss", step, 2.6 + 5 / step**0.4)
    curves = build(columns, source="memory", format="memory", rows=100_000, damage=Damage())
    began = time.process_time()
    judge(curves)
    bench.figure("diagnosis of 100,000 steps, CPU time", time.process_time() - began, "<= 2", unit="s")


def remade(bench: Bench) -> None:
    """One curve of the first half trained again: the same rows but for the clock."""
    if QUICK or os.environ.get("BENCH_CURVES_REMAKE") == "0":
        return
    import torch

    from bench.curves.corpora import CORPORA
    from bench.curves.states import HALVES
    from bench.curves.trainer import run

    torch.set_num_threads(1)
    case = next(case for case in cases("dev") if case.name.startswith("far-too-short"))
    made = list(run(case.plan, CORPORA[HALVES["dev"].corpus]()))
    kept = rows_of(RECORDS / "dev" / f"{case.name}.jsonl.gz")
    far = max(
        (
            abs(a["train/loss"] - b["train/loss"])
            for a, b in zip(made, kept, strict=False)
            if "train/loss" in a and "train/loss" in b
        ),
        default=float("nan"),
    )
    bench.figure(
        "one curve trained again: largest difference of its training loss", far, unit="nats", note=case.name
    )


def main() -> None:
    """Score both halves and end with the verdict."""
    bench = Bench("curves", ABOUT)
    first = [one for half in SETTING for one in score_half(half)]
    scored = score_half("scored")
    bench.figure("labelled curves in all", len(first) + len(scored), ">= 40")
    bench.figure("healthy among them", sum(one.case.healthy for one in (*first, *scored)), ">= 25")
    figures_of(bench, first, "first", bars=False)
    figures_of(bench, scored, "scored", bars=True)
    public_curves(bench)
    speed(bench)
    summaries.figures_of(bench)
    remade(bench)
    bench.finish()


if __name__ == "__main__":
    main()
