"""Planted leaks in twenty-two forms, real ones (GSM8K), and text without any."""

from __future__ import annotations

import gzip

from tests.corpus.test_protect import FORMS, ITEM, PADDING

from bench.common import Bench, data_folder
from bench.corpus.texts import gzip_rows
from umsicht.corpus.kernels.spans import spans_from
from umsicht.corpus.protect import fingerprint, pieces_of_rows, scan


def run(bench: Bench) -> None:
    """Recall over the forms; false hits in books and in a training split."""
    known = fingerprint(pieces_of_rows("ferries", [{"id": "7", "question": ITEM}]))
    found = sum(bool(scan(spans_from([PADDING, form(ITEM)]), known)) for form in FORMS.values())
    bench.figure("planted leaks found", found / len(FORMS), "== 1.0", note=f"{len(FORMS)} forms")
    folder = data_folder()
    if folder is None:
        bench.figure("false hits in books", None, "== 0")
        return
    pieces = [
        piece
        for path in sorted((folder / "eval-sets").glob("*.jsonl.gz"))
        for piece in pieces_of_rows(path.name.partition(".")[0], gzip_rows(path))
    ]
    everything = fingerprint(pieces)
    hits = 0
    for path in sorted((folder / "books").glob("*.txt.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            hits += len(scan(spans_from([file.read()]), everything))
    bench.figure("false hits in books", hits, "== 0", note=f"{len(pieces)} pieces of 17 sets")
    for split, target in (("test", "== 1319"), ("train", "== 0")):
        rows = gzip_rows(folder / "gsm8k" / f"{split}.jsonl.gz")
        texts = spans_from([row["question"] + "\n" + row["answer"] for row in rows])
        flagged = {hit.text for hit in scan(texts, everything) if hit.set == "gsm8k"}
        bench.figure(f"gsm8k {split} documents flagged", len(flagged), target, note=f"of {len(rows)}")
