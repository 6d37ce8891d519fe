"""The ledger: documents and bytes of every source after every stage. Tokens are filled in by `count`, once there is a tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

STAGES = ("read", "normalise", "filter", "exact", "near", "lines", "paragraphs", "protect", "train")
"""`train` is what is left for training once validation is set aside."""


class Ledger:
    """Counts per source and stage; ledgers of tasks add up."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, list[int]]] = {}

    def add(self, source: str, stage: str, documents: int, size: int) -> None:
        """Count documents and UTF-8 bytes that a source still has after a stage."""
        count = self._counts.setdefault(source, {}).setdefault(stage, [0, 0])
        count[0] += documents
        count[1] += size

    def merge(self, plain: Mapping[str, Mapping[str, Iterable[int]]]) -> None:
        """Add the counts of a task."""
        for source, stages in plain.items():
            for stage, (documents, size) in stages.items():
                self.add(source, stage, documents, size)

    def plain(self) -> dict[str, dict[str, list[int]]]:
        """As plain JSON."""
        return self._counts

    def get(self, source: str, stage: str) -> tuple[int, int]:
        """Documents and bytes of a source after a stage."""
        documents, size = self._counts.get(source, {}).get(stage, (0, 0))
        return documents, size

    def stages(self, source: str, order: Iterable[str]) -> list[dict[str, Any]]:
        """The funnel of one source: every stage of `order`."""
        rows = []
        for stage in order:
            documents, size = self.get(source, stage)
            rows.append({"stage": stage, "documents": documents, "bytes": size, "tokens": None})
        return rows
