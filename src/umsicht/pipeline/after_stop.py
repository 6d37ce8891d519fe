"""What may follow a stop by a guard: a person's acknowledgement, or one rewind that the recipe asked for beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from umsicht.findings import Finding, UserError, Waiver
from umsicht.record import Run
from umsicht.record.manifest import now
from umsicht.tokens.batch import Batch
from umsicht.train import Outcome, checkpoints
from umsicht.words import t

OUTSIDE = ("CHECKPOINT", "RECORD", "RANK")
"""Families whose stop lies outside the training: a full disk is mended by making room, not by a change of the run."""


def open_stop(run: Run) -> dict[str, Any] | None:
    """The finding that stopped `run` and that nobody has acknowledged yet."""
    if (run.manifest.get("outcome") or {}).get("reason") != "stopped-by-guard":
        return None
    stops = [one for one in run.findings() if one.get("grade") == "stop"]
    if not stops or str(stops[-1]["id"]).partition("/")[0] in OUTSIDE:
        return None
    last = stops[-1]
    known = [(one["finding"], one["step"]) for one in run.manifest.get("acknowledged", [])]
    return None if (last["id"], last.get("step")) in known else last


def require_acknowledgement(run: Run, given: Sequence[Waiver]) -> None:
    """Let a stopped run go on only when its finding is named with what was found and changed; kept in the manifest.

    Raises UserError where the finding is not named, or named without a reason.
    """
    stop = open_stop(run)
    if stop is None:
        return
    identity, step = str(stop["id"]), stop.get("step")
    words = next((one.because for one in given if one.id == identity), "")
    if not words.strip():
        raise UserError(
            t("pipeline.stopped", id=identity, step=step),
            where=str(run.folder),
            why=t("pipeline.stopped.why"),
            fix=t("pipeline.stopped.fix", id=identity),
        )
    entry = {"finding": identity, "step": step, "because": words.strip(), "time": now()}
    run.update_manifest(acknowledged=[*run.manifest.get("acknowledged", []), entry])


# -- rewind ----------------------------------------------------------------------------------------------------------------------
def rewind(run: Run, outcome: Outcome) -> bool:
    """Step back to the newest checkpoint before the onset of a spike or shift and mark the window between as skipped.

    True where the run may go on; once a run only. Checkpoints made after the onset are kept under another name.
    """
    finding = outcome.finding
    if finding is None or finding.numbers.get("remedy") != "rewind" or run.manifest.get("rewinds"):
        return False
    onset, alarm = int(finding.numbers["onset"]), int(finding.numbers["step"])
    listed = checkpoints.listed(run)
    good = [one for one in listed if one.step < onset]
    if not good:
        return False
    target = good[-1].step
    for one in listed:
        if one.step > target:
            one.path.rename(one.path.with_name(f"rewound-{one.path.name}"))
    entry = {"finding": finding.id, "to": target, "from": alarm, "skipped": alarm - target, "time": now()}
    run.update_manifest(rewinds=[entry])
    numbers = {"step": alarm, "to": target, "skipped": alarm - target}
    run.add_finding(
        {**Finding("CURVE/rewound", "warn", "run", f"run: step {alarm}", numbers).to_dict(), "step": alarm}
    )
    return True


class Skipping:
    """A batch source that leaves out windows of steps: from step `at` on, the data of `skipped` steps later."""

    def __init__(self, source: Any, windows: Sequence[tuple[int, int]]) -> None:
        self.source = source
        self.windows = tuple(windows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def place(self, step: int) -> int:
        """The step of the plain source whose data step `step` is fed."""
        return step + sum(skipped for at, skipped in self.windows if step >= at)

    def batch(self, step: int) -> Batch:
        """The global batch of a step."""
        found: Batch = self.source.batch(self.place(step))
        return found

    def micro_batches(self, step: int, rows: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """Its parts."""
        yield from self.source.micro_batches(self.place(step), rows, rank, world)

    def rows_at(self, step: int) -> int:
        """Rows of the global batch of a step."""
        return int(self.source.rows_at(self.place(step)))

    def tokens_at(self, step: int) -> int:
        """Tokens of it."""
        return int(self.source.tokens_at(self.place(step)))

    def epoch(self, step: int) -> float:
        """Passes over the data before the step, what was skipped counted in."""
        return float(self.source.epoch(self.place(step)))


def skipping(source: Any, run: Run) -> Any:
    """`source`, without the windows that a rewind of `run` left out."""
    windows = [(int(one["to"]), int(one["skipped"])) for one in run.manifest.get("rewinds", [])]
    return Skipping(source, windows) if windows else source
