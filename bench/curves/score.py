"""Score the diagnosis on the labelled curves."""

from __future__ import annotations
import gzip, sys
from pathlib import Path
import orjson

sys.path.insert(0, str(Path(__file__).parent))
from states import cases
from umsicht.diagnose import judge
from umsicht.diagnose.record_reader import from_metrics
from umsicht.record.metrics import _collect

half = sys.argv[1]
n = right = 0
for case in cases(half):
    path = Path(__file__).parent / "records" / half / f"{case.name}.jsonl.gz"
    if not path.exists():
        continue
    curves = from_metrics(_collect(gzip.open(path).read().split(b"\n")), case.name)
    d = judge(curves)
    n += 1
    ok = d.verdict in case.verdicts and all(any(e.kind == k for e in d.events) for k in case.events)
    right += ok
    ev = [(e.kind, e.step, e.recovered, e.explained_by) for e in d.events]
    print(
        "ok " if ok else "BAD",
        case.name,
        d.verdict,
        d.reason,
        len(d.evidence),
        ev[:5],
        [a.id for a in d.also],
        d.missing[:3],
    )
print(right, n)
