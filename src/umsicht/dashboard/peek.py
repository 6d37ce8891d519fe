"""Random documents of a corpus, read in a process of its own so that the server needs no Parquet library in memory."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from umsicht.dashboard.helper import ask

SHOWN = 5
MOST_CHARACTERS = 4000
TIMEOUT_S = 30


def peek(
    corpus: Path, *, source: str = "", reason: str = "", dropped: bool = False, seed: str = "0"
) -> tuple[list[dict[str, Any]], str]:
    """Up to `SHOWN` documents and a problem code: empty, `no_parquet` (library missing) or `unreadable`."""
    question = {"corpus": str(corpus), "source": source, "reason": reason, "dropped": dropped, "seed": seed}
    answer = ask("umsicht.dashboard.peek", question, TIMEOUT_S)
    found = answer.get("documents")
    return (found if isinstance(found, list) else []), str(answer["problem"])


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        return {"documents": [], "problem": "no_parquet"}
    rng = random.Random(question["seed"])
    folder = Path(question["corpus"]) / ("dropped" if question["dropped"] else "train")
    paths = sorted(folder.glob("part-*.parquet"))
    rng.shuffle(paths)
    filters = [(name, "=", question[name]) for name in ("source", "reason") if question[name]] or None
    found: list[dict[str, Any]] = []
    for path in paths[:8]:
        names = parquet.read_schema(path).names
        wanted = [
            name
            for name in ("text", "source", "domain", "language", "origin", "stage", "reason", "detail")
            if name in names
        ]
        usable = [item for item in filters or [] if item[0] in names] or None
        table = parquet.read_table(path, columns=wanted, filters=usable)
        rows = rng.sample(range(table.num_rows), min(SHOWN, table.num_rows))
        found += table.take(rows).to_pylist()
        if len(found) >= SHOWN:
            break
    for row in found:
        text = str(row.get("text") or "")
        row["text"], row["cut"] = text[:MOST_CHARACTERS], max(0, len(text) - MOST_CHARACTERS)
    return {"documents": found[:SHOWN], "problem": ""}


if __name__ == "__main__":
    try:
        print(json.dumps(_answer(json.load(sys.stdin)), default=str))
    except (OSError, ValueError, KeyError):
        print(json.dumps({"documents": [], "problem": "unreadable"}))
