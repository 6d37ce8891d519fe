"""Train the labelled curves: ``python -m bench.curves.make dev --seconds 420`` continues where it stopped."""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path

import torch

from bench.curves.corpora import CORPORA
from bench.curves.states import HALVES, Case, cases
from bench.curves.trainer import run

RECORDS = Path(__file__).parent / "records"


def write(case: Case, rows: list[dict[str, object]], path: Path) -> None:
    """One gzip file a curve; no name and no time in its header, so the same rows give the same bytes."""
    body = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    temporary = path.with_suffix(".part")
    temporary.write_bytes(gzip.compress(body.encode(), compresslevel=9, mtime=0))
    temporary.rename(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("half", choices=sorted(HALVES))
    parser.add_argument(
        "--seconds", type=float, default=420.0, help="stop after the curve that passes this time"
    )
    parser.add_argument("--only", default="", help="make only curves whose name contains this, again")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder = RECORDS / arguments.half
    folder.mkdir(parents=True, exist_ok=True)
    domains = CORPORA[HALVES[arguments.half].corpus]()
    began = time.monotonic()
    for case in cases(arguments.half):
        path = folder / f"{case.name}.jsonl.gz"
        if arguments.only and arguments.only not in case.name:
            continue
        if path.exists() and not arguments.only:
            continue
        if time.monotonic() - began > arguments.seconds:
            print("time is up; run again to continue")
            return
        at = time.monotonic()
        rows = list(run(case.plan, domains))
        write(case, rows, path)
        val = [row["val/all/loss"] for row in rows if "val/all/loss" in row]
        train = [row["train/loss"] for row in rows if "train/loss" in row]
        print(
            case.name, f"{time.monotonic() - at:.1f}s", "train", train[0], train[-1], "val", val, flush=True
        )


if __name__ == "__main__":
    main()
