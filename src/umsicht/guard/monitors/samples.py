"""What each step is fed: samples once an epoch, the batch that is due, the usual number of targets."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch

from umsicht.findings import Finding
from umsicht.guard.monitors.said import add
from umsicht.guard.subject import numbers
from umsicht.recipe.guard import MonitorSettings
from umsicht.train.hooks import Hook, StopRun, View


class LedgerMonitor(Hook):
    """Every sample once an epoch, the batch of the step and no other, the active targets that batches of this kind have."""

    name = "guard-ledger"

    def __init__(self, source: Any, settings: MonitorSettings) -> None:
        self.source = source
        self.settings = settings
        self.total = int(getattr(source, "total_rows", 0))
        self.by_group = len(getattr(source, "groups", [0])) > 1
        self.seen: set[int] = set()
        self.coming: list[int] = []
        self.epoch = 0
        self.counts: deque[int] = deque(maxlen=64)
        self.said: set[str] = set()

    def after_backward(self, view: View) -> None:
        """Before the weights move: a batch that should not be there must not be learned."""
        rows = view.batch.rows.tolist()
        self._repeats(view, rows)
        self._right_batch(view, rows)
        self._targets(view)

    def _repeats(self, view: View, rows: list[int]) -> None:
        if self.by_group or not self.total:
            return
        epoch = int(self.source.epoch(view.step - 1) + 1e-9)
        if epoch != self.epoch:
            # A batch across the edge belongs to both epochs.
            self.seen, self.epoch = set(), epoch
        repeated = [row for row in rows if row in self.seen]
        edge = self.source.epoch(view.step) >= epoch + 1
        if repeated and not edge:
            finding = Finding(
                "DATA-ORDER/repeats",
                "stop",
                "run",
                location=f"data order: step {view.step}, sample {repeated[0]}",
                numbers=numbers(repeats=len(repeated), rows=len(rows), share=len(repeated) / len(rows)),
            )
            self._say(view, finding, stop=self.settings.stop_at_repeats)
        # A step that another monitor still stops has consumed nothing: after `--resume` its batch comes again.
        self.coming = rows

    def after_step(self, view: View) -> None:
        """The step was made: its samples are used up."""
        self.seen.update(self.coming)
        self.coming = []

    def _right_batch(self, view: View, rows: list[int]) -> None:
        """Now and then ask the source itself what this step should have been fed."""
        if view.step % 100 != 1 or view.ranks.world > 1:
            # With several ranks `umsicht.train` itself compares the union of their samples with the batch.
            return
        expected = self.source.batch(view.step - 1)
        got, want = view.batch.inputs.cpu(), expected.inputs
        if rows != expected.rows.tolist() or (got.shape == want.shape and not torch.equal(got, want)):
            finding = Finding(
                "DATA-ORDER/other-batch",
                "stop",
                "run",
                location=f"data order: step {view.step}",
                numbers=numbers(step=view.step, first=rows[0], expected=int(expected.rows[0])),
            )
            self._say(view, finding, stop=True)

    def _targets(self, view: View) -> None:
        usual = sorted(self.counts)[len(self.counts) // 2] if len(self.counts) >= 20 else None
        if usual and view.active_targets < 0.25 * usual:
            finding = Finding(
                "TARGET-MASK/few-targets",
                "warn",
                "run",
                location=f"targets: step {view.step}",
                numbers=numbers(step=view.step, active=view.active_targets, usual=usual),
            )
            self._say(view, finding)
        else:
            self.counts.append(view.active_targets)

    def _say(self, view: View, finding: Finding, *, stop: bool = False) -> None:
        if stop:
            raise StopRun(finding)
        if finding.id not in self.said:
            self.said.add(finding.id)
            add(view, finding)

    def state_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "epoch": self.epoch,
            "seen": sorted(self.seen),
            "counts": list(self.counts),
            "said": sorted(self.said),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.epoch, self.seen = int(state["epoch"]), set(state["seen"])
        self.counts, self.said = deque(state["counts"], maxlen=64), set(state["said"])
