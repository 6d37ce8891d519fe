"""`make bench-corpus`: deduplication against peers, labelled copies, language id, classifiers, leaks, and the whole chain.

Parts can be run alone: `python -m bench.corpus speed copies language classifiers leaks chain`.
"""

from __future__ import annotations

import sys

from bench.common import QUICK, Bench, data_folder
from bench.corpus import chain, copies, labels, leaks, speed

PARTS = {
    "copies": copies.run,
    "leaks": leaks.run,
    "language": labels.run_language,
    "classifiers": labels.run_classifiers,
    "chain": chain.run,
    "speed": speed.run,
}


def main() -> None:
    """Run the parts that were named, or all."""
    bench = Bench("corpus", "Corpus: what is found, what is spared, and how fast.")
    if data_folder() is None:
        bench.section("UMSICHT_TEST_DATA is not set: figures on real test data are not measured.")
    if QUICK:
        bench.section("BENCH_QUICK=1: smaller texts and one repeat. Figures of a full run may differ.")
    for name in sys.argv[1:] or PARTS:
        PARTS[name](bench)
    bench.finish()


if __name__ == "__main__":
    main()
