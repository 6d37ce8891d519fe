"""The record as the other ranks see it: the same to read, nothing to write. One writer a run, or rows would stand in it twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from umsicht.record import Run


class NoWriter:
    """Takes rows and lets them go."""

    def write(self, row: Mapping[str, Any]) -> None: ...
    def sync(self) -> None: ...
    def close(self) -> None: ...


class SilentRun(Run):
    """A run whose changes stay in this process."""

    @classmethod
    def of(cls, run: Run) -> SilentRun:
        """The same run, silent."""
        return cls(run.folder, run.manifest)

    def update_manifest(self, **changes: Any) -> None:
        """Remember; another rank writes."""
        self.manifest = {**self.manifest, **changes}

    def begin_segment(self) -> int:
        """The number that rank 0 gives this attempt."""
        return int(self.manifest.get("segments", 0))

    def metrics_writer(self, segment: int) -> Any:
        """A writer that writes nothing."""
        return NoWriter()

    def add_finding(self, finding: Mapping[str, Any]) -> None:
        """Rank 0 adds it."""

    def add_samples(self, samples: Iterable[Mapping[str, Any]]) -> None:
        """Rank 0 adds them."""
