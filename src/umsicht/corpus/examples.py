"""Examples for the report: clusters of near-duplicates, and the lines that come back most."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.corpus.document import read_columns
from umsicht.corpus.index import ids_of
from umsicht.corpus.listing import Listing

CLUSTERS = 40
MEMBERS = 5
LINES = 10
LONGEST_LINE = 300


def clusters(drops: npt.NDArray[Any], indexes: Listing) -> list[dict[str, Any]]:
    """The largest clusters: the kept document and how many went for it."""
    kept, counts = np.unique(drops["earlier"], return_counts=True)
    places = np.lexsort((kept, -counts))[:CLUSTERS]
    members = [drops[drops["earlier"] == kept[place]][:MEMBERS] for place in places]
    numbers = np.concatenate([kept[places], *(mine["later"] for mine in members)])
    names_of = dict(zip(numbers.tolist(), ids_of(indexes, numbers), strict=True))
    return [
        {
            "kept": names_of[int(kept[place])],
            "dropped": int(counts[place]),
            "members": [names_of[number] for number in mine["later"].tolist()],
            "scores": [round(float(score), 3) for score in mine["score"]],
        }
        for place, mine in zip(places, members, strict=True)
    ]


def top_lines(
    lines: npt.NDArray[Any], sources: Sequence[str], tables: Sequence[Path]
) -> dict[str, dict[str, Any]]:
    """By source: number and bytes of its most frequent lines that stay, and the first of them to read."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        entry = found.setdefault(sources[line["source"]], {"lines": 0, "bytes": 0, "examples": []})
        entry["lines"] += 1
        entry["bytes"] += int(line["bytes"])
        if len(entry["examples"]) < LINES:
            text = read_columns(tables[line["part"]], ["text"]).column("text")[int(line["row"])].as_py()
            piece = text.encode()[int(line["start"]) : int(line["end"])].decode("utf-8", "replace")
            entry["examples"].append({"documents": int(line["documents"]), "line": piece[:LONGEST_LINE]})
    return found
