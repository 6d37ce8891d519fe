"""What a monitor of a foreign loop leaves in its folder: a row a step, findings, and the batches of alarms."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from umsicht.findings import Finding, UserError
from umsicht.findings.finding import Grade
from umsicht.guard.adapt_batch import Example
from umsicht.guard.subject import numbers
from umsicht.record import atomic_json
from umsicht.record.metrics import MetricsWriter
from umsicht.record.run import append_jsonl
from umsicht.words import t


class WatchLog:
    """A folder in the form of a run's record. `steps` is the number of the last step that was told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps = 0
        self.findings: list[Finding] = []
        self.said: set[str] = set()
        self._begun = time.monotonic()
        self._writer: MetricsWriter | None = None

    def open(self) -> None:
        """Raises `UserError` where the folder cannot be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe = self.folder / ".writable"
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise UserError(
                t("guard.api.watch_folder.what", folder=self.folder),
                "folder=",
                error.strerror or str(error),
                t("guard.api.watch_folder.fix"),
            ) from error
        self._writer = MetricsWriter(self.folder / "metrics.jsonl", 0)

    def close(self) -> None:
        """Let go of the files."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def next_step(self, number: int | None = None) -> None:
        """One more, or step `number` where that is later. Raises `UserError` where the folder is not open."""
        if self._writer is None:
            raise UserError(
                t("guard.api.watch_off.what"),
                "guard.watch",
                t("guard.api.watch_off.why"),
                t("guard.api.watch_off.fix"),
            )
        self.steps = max(self.steps + 1, number or 0)

    def row(self, figures: dict[str, float]) -> None:
        """The figures of this step."""
        assert self._writer is not None
        self._writer.write({"step": self.steps, "time": time.monotonic() - self._begun, **figures})

    def add(
        self, identity: str, grade: Grade, location: str, /, *, once: bool = False, **values: Any
    ) -> Finding:
        """Record a finding; with `once` only the first of its id."""
        finding = Finding(identity, grade, "run", location=location, numbers=numbers(**values))
        if once and identity in self.said:
            return finding
        self.said.add(identity)
        self.findings.append(finding)
        self.folder.mkdir(parents=True, exist_ok=True)
        append_jsonl(self.folder / "findings.jsonl", [{**finding.to_dict(), "step": self.steps}])
        return finding

    def keep(self, finding: Finding, example: Example | None) -> None:
        """The ids of the batch that gave the alarm."""
        if example is None:
            return
        folder = self.folder / "alarms"
        folder.mkdir(exist_ok=True)
        atomic_json(
            folder / f"step-{self.steps:08d}.json",
            {"step": self.steps, "finding": finding.id, "ids": example.ids.tolist()},
        )
