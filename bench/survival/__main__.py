"""`make bench-survival`: twenty faults on real jobs; what each cost, beside what it may cost.

`python -m bench.survival 1 5` runs these scenarios only, and leaves the page as it is. UMSICHT_SURVIVAL_FOLDER names a folder in which prepared
projects and unbroken runs are kept for the next time.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from bench.common import QUICK, ROOT, Bench
from bench.survival.registry import Scenario, SkippedError, all_scenarios
from bench.survival.subject import Subjects

SHORT = (1, 4, 9, 16)
"""The rows of a shortened run; `make test` runs these four as tests."""
ABOUT = """Twenty faults on real jobs: processes of `umsicht train --nproc-per-node`, hurt by real signals, full disks, flipped bits and cut
networks. K = 5 steps between checkpoints. Losses and weights are compared with those of an unbroken run, to the last bit where the number of ranks is
the same."""


def main() -> None:
    """Run the scenarios asked for, print the table, write the page where all were run."""
    wanted = [int(word) for word in sys.argv[1:]] or (list(SHORT) if QUICK else [])
    known = {one.number: one for one in all_scenarios()}
    chosen = [known[number] for number in wanted or known]
    bench = Bench("survival", ABOUT)
    kept = os.environ.get("UMSICHT_SURVIVAL_FOLDER", "")
    folder = Path(kept) if kept else Path(tempfile.mkdtemp(prefix="survival-", dir=_scratch()))
    began = time.monotonic()
    subjects = Subjects(folder)
    for one in chosen:
        act(one, subjects, bench)
    if not wanted:
        bench.figure("whole table, minutes", (time.monotonic() - began) / 60, "<= 25")
    if not kept:
        shutil.rmtree(folder, ignore_errors=True)
    if sys.argv[1:]:
        sys.exit(0 if all(figure.verdict in ("ok", "info") for figure in bench.figures) else 1)
    bench.finish()


def act(one: Scenario, subjects: Subjects, bench: Bench) -> None:
    """One scenario; what it cannot do here is a line that says why, and no figure that looks met."""
    print(f"— {one.number} {one.title}", flush=True)
    began = time.monotonic()
    try:
        for name, value, target in one.act(subjects):
            bench.figure(f"{one.number} {name}", float(value), target)
    except SkippedError as reason:
        bench.figure(f"{one.number} {one.title}", None, note=f"skipped: {reason}")
    except Exception as error:  # one scenario that breaks must not hide the others
        bench.figure(
            f"{one.number} came to its end", 0, "== 1", note=(str(error) or repr(error)).splitlines()[0]
        )
        traceback.print_exc()
    print(f"  ({time.monotonic() - began:.0f} s)", flush=True)


def _scratch() -> Path:
    scratch = ROOT / "build" / "survival"
    scratch.mkdir(parents=True, exist_ok=True)
    return scratch


if __name__ == "__main__":
    main()
