"""Probes in the order of the pipeline: the earliest stage that fails is the cause, what fails after it is a consequence."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from umsicht.findings import Finding, UserError
from umsicht.guard.subject import Cannot, Subject

STAGES = (
    "raw-text",
    "round-trip",
    "token-ids",
    "boundaries",
    "overlap",
    "rows",
    "data-order",
    "target-shift",
    "active-targets",
    "dtypes",
    "load",
    "causal-prefix",
    "documents",
    "initialisation",
    "loss-norm",
    "batch-algebra",
    "one-step",
    "overfit",
    "evaluation",
    "checkpoint",
    "resume",
    "stability",
    "ranks",
    "template",
    "adapter",
    "run",
)
"""From the raw text to the running run; the order in which probes run and causes are named."""


REHEARSED = ("checkpoint", "resume", "stability")
"""Stages that run the trainer itself: what it refuses there is a fault of the run, not a wrong argument of the check."""


class Said(Exception):
    """Something under the probe has itself said what is wrong: that is the finding, whatever the probe would have made of it."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.id)
        self.finding = finding


@dataclass(frozen=True)
class Probe:
    """One check: `name` of the catalogue (T5), its stage, and a function that gives its findings."""

    name: str
    stage: str
    look: Callable[[Subject], Iterable[Finding]]
    slow: bool = False


@dataclass(frozen=True)
class Ran:
    """What became of a probe: how long it took, or why it did not run."""

    probe: str
    stage: str
    seconds: float
    state: str
    reason: str = ""
    cpu_s: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "probe": self.probe,
            "stage": self.stage,
            "seconds": round(self.seconds, 3),
            "cpu_s": round(self.cpu_s, 3),
            "state": self.state,
            "reason": self.reason,
        }


class Report(list[Finding]):
    """The findings in order of cause, with what ran beside them. An ordinary list of `Finding` to everybody else."""

    def __init__(self, findings: Iterable[Finding] = (), ran: Iterable[Ran] = ()) -> None:
        super().__init__(findings)
        self.ran: list[Ran] = list(ran)
        self.shown: str = ""

    @property
    def stopping(self) -> list[Finding]:
        """Findings that shut the gate."""
        return [finding for finding in self if finding.grade == "stop"]

    @property
    def cause(self) -> Finding | None:
        """The earliest finding that stops, else the earliest warning."""
        for grade in ("stop", "warn"):
            for finding in self:
                if finding.grade == grade:
                    return finding
        return None

    @property
    def passed(self) -> bool:
        """True where nothing stops."""
        return not self.stopping

    @property
    def seconds(self) -> float:
        """Wall time of all probes."""
        return sum(ran.seconds for ran in self.ran)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "passed": self.passed,
            "seconds": round(self.seconds, 2),
            "findings": [finding.to_dict() for finding in self],
            "probes": [ran.to_dict() for ran in self.ran],
        }


@dataclass
class Order:
    """Runs probes in stage order over one subject."""

    probes: Sequence[Probe]
    all: bool = False
    only: frozenset[str] = frozenset()
    progress: Callable[[str], None] | None = None
    report: Report = field(default_factory=Report)

    def run(self, subject: Subject) -> Report:
        """Run every probe; a stage that stops ends the run unless `all`."""
        stopped = ""
        for probe in sorted(self.probes, key=lambda item: STAGES.index(item.stage)):
            if self.only and probe.name not in self.only and probe.stage not in self.only:
                continue
            if stopped and probe.stage != stopped and not self.all:
                self._note(probe, None, "not-run", f"{stopped} stopped")
                continue
            if self.progress:
                self.progress(probe.stage)
            found = self._look(probe, subject)
            self.report.extend(found)
            if not stopped and any(finding.grade == "stop" for finding in found):
                stopped = probe.stage
        ordered = sorted(self.report, key=lambda finding: STAGES.index(finding.stage))
        self.report[:] = mark_consequences(ordered)
        return self.report

    def _note(self, probe: Probe, begun: tuple[float, float] | None, state: str, reason: str = "") -> None:
        wall, cpu = (time.monotonic() - begun[0], time.process_time() - begun[1]) if begun else (0.0, 0.0)
        self.report.ran.append(Ran(probe.name, probe.stage, wall, state, reason, cpu))

    def _look(self, probe: Probe, subject: Subject) -> list[Finding]:
        begun = (time.monotonic(), time.process_time())
        try:
            with subject.undisturbed():
                found = [
                    replace(finding, stage=finding.stage or probe.stage) for finding in probe.look(subject)
                ]
        except Cannot as reason:
            self._note(probe, begun, "skipped", str(reason))
            return []
        except Said as said:
            found = [replace(said.finding, stage=probe.stage)]
        except OSError as error:
            found = [_disk(probe, error)]
        except UserError as error:
            if probe.stage not in REHEARSED:
                raise
            found = [_refused(probe, error)]
        except (
            RuntimeError,
            ValueError,
            TypeError,
            IndexError,
            KeyError,
            AttributeError,
            AssertionError,
            ArithmeticError,
        ) as error:
            self._note(probe, begun, "failed", f"{type(error).__name__}: {error}")
            return [_fell_over(probe, error)]
        state = (
            "stop"
            if any(f.grade == "stop" for f in found)
            else "warn"
            if any(f.grade == "warn" for f in found)
            else "ok"
        )
        self._note(probe, begun, state)
        return found


def _refused(probe: Probe, error: UserError) -> Finding:
    """The trainer refused its own checkpoint or data in a rehearsal."""
    return Finding(
        "CHECKPOINT/refused" if probe.stage == "checkpoint" else "RESUME-STATE/refused",
        "stop",
        probe.stage,
        location=f"{probe.stage}: {error.where or 'rehearsal'}",
        numbers={"what": str(error.what)[:300]},
    )


def _disk(probe: Probe, error: OSError) -> Finding:
    """The disk refused: said as such, with what is left on it."""
    path = Path(str(error.filename or "."))
    folder = next((one for one in (path, *path.parents) if one.is_dir()), Path())
    free = shutil.disk_usage(folder).free
    return Finding(
        "CHECKPOINT/not-written",
        "stop",
        probe.stage,
        location=str(path),
        numbers={"step": 0, "error": error.strerror or str(error), "needed_bytes": 0, "free_bytes": free},
    )


def _fell_over(probe: Probe, error: Exception) -> Finding:
    """Something under test raised: the check could not be made, so it has not passed."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f"{frame.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.tb_lineno}" if frame else ""
    message = str(error).splitlines()[0][:300] if str(error) else ""
    return Finding(
        "RECORD/probe-failed",
        "stop",
        probe.stage,
        location=f"check: {probe.name}",
        numbers={"probe": probe.name, "error": type(error).__name__, "message": message, "where": where},
    )


def mark_consequences(ordered: Sequence[Finding]) -> list[Finding]:
    """Name the first stopping finding as the cause of the later ones; `ordered` is in stage order."""
    first = next((finding for finding in ordered if finding.grade == "stop"), None)
    if first is None:
        return list(ordered)
    marked = []
    for finding in ordered:
        later = STAGES.index(finding.stage) > STAGES.index(first.stage)
        marked.append(
            replace(finding, consequence_of=first.id) if later and finding.grade != "note" else finding
        )
    return marked
