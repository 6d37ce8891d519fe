"""`make bench-corpus`: deduplication against peers, labelled copies, language id, classifiers, leaks, the whole chain, memory.

Parts can be run alone: `python -m bench.corpus speed copies language classifiers leaks chain memory cluster`. Each part keeps its figures under
`build/bench/corpus/`; the page is made of the newest run of every part and says when each was run
(`python -m bench.corpus page` only writes it anew). A part that never ran is not measured.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime

from bench.common import QUICK, ROOT, Bench, Figure, data_folder
from bench.corpus import chain, cluster, copies, labels, leaks, memory, speed
from umsicht.record.environment import code_version
from umsicht.record.files import atomic_json

PARTS = {
    "copies": copies.run,
    "leaks": leaks.run,
    "language": labels.run_language,
    "classifiers": labels.run_classifiers,
    "chain": chain.run,
    "speed": speed.run,
    "memory": memory.run,
    "cluster": cluster.run,
}
PAGE = "page"
"""No part: only writes the page anew."""
KEPT = ROOT / "build" / "bench" / "corpus"


def main() -> None:
    """Run the parts that were named, or all; then the page out of all parts."""
    bench = Bench("corpus", "Corpus: what is found, what is spared, and how fast.")
    if data_folder() is None:
        bench.section("UMSICHT_TEST_DATA is not set: figures on real test data are not measured.")
    if QUICK:
        bench.section("BENCH_QUICK=1: smaller texts and one repeat. Figures of a full run may differ.")
    for name in [name for name in sys.argv[1:] or PARTS if name != PAGE]:
        before = len(bench.figures)
        PARTS[name](bench)
        if not QUICK:
            _keep(name, bench.figures[before:])
    if not QUICK:
        bench.figures = _of_all(bench)
    bench.finish()


def _keep(name: str, figures: list[Figure]) -> None:
    about = {"when": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "code": code_version()}
    atomic_json(KEPT / f"{name}.json", {**about, "figures": [vars(figure) for figure in figures]})


def _of_all(bench: Bench) -> list[Figure]:
    figures, lines = [], ["Parts and when they ran:", ""]
    for name in PARTS:
        path = KEPT / f"{name}.json"
        if not path.is_file():
            figures.append(Figure(f"{name} (this part was not run)", None, ">= 0"))
            continue
        part = json.loads(path.read_bytes())
        figures += [Figure(**figure) for figure in part["figures"]]
        lines.append(f"- {name}: {part['when']}")
    bench.section("\n".join(lines))
    return figures


if __name__ == "__main__":
    main()
