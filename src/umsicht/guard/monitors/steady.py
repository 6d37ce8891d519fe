"""Small monitors of everything that should stay as declared: rate, samples, targets, speed, gap, domains, layers."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch
from torch import nn

from umsicht.findings import Finding
from umsicht.guard.probes.closed_form import closed_form
from umsicht.guard.subject import numbers
from umsicht.recipe.guard import MonitorSettings
from umsicht.recipe.train import TrainSettings
from umsicht.train.groups import resolved_rates
from umsicht.train.hooks import Every, Hook, StopRun, View


def add(view: View, finding: Finding) -> None:
    """Write a finding to the run's record, with its step."""
    view.run.add_finding({**finding.to_dict(), "step": view.step})


class RateMonitor(Hook):
    """The learning rate against its closed form, every step: free and exact."""

    name = "guard-rate"

    def __init__(self, settings: TrainSettings, total_steps: int | None) -> None:
        self.settings = settings
        self.total = total_steps
        self.said = False
        self.clipped: deque[int] = deque(maxlen=200)

    def after_backward(self, view: View) -> None:
        """Compare; a wrong rate stops the run before it moves a weight."""
        total = self.total or view.total_steps
        first = getattr(view.optimizer, "groups", None)
        if not first:
            return
        base = resolved_rates(self.settings.optimizer)[first[0].role]
        want = base * closed_form(self.settings.schedule, total, view.step - 1)
        if abs(view.lr - want) > 1e-5 * max(base, want):
            raise StopRun(
                Finding(
                    "OPT-WIRING/schedule",
                    "stop",
                    "run",
                    location=f"schedule: step {view.step}",
                    numbers=numbers(step=view.step, rate=view.lr, expected=want),
                )
            )

    def after_step(self, view: View) -> None:
        """Share of clipped steps: a run that clips nearly every step trains with another rate than it says."""
        self.clipped.append(int(view.clipped))
        if len(self.clipped) < 200 or view.step % 50:
            return
        share = sum(self.clipped) / len(self.clipped)
        view.log({"guard/clipped_share": share})
        if share > 0.9 and not self.said:
            self.said = True
            add(
                view,
                Finding(
                    "OPT-WIRING/always-clipped",
                    "note",
                    "run",
                    location=f"run: step {view.step}",
                    numbers=numbers(step=view.step, share=share),
                ),
            )

    def state_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"said": self.said, "clipped": list(self.clipped)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.said, self.clipped = bool(state["said"]), deque(state["clipped"], maxlen=200)


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


class SpeedMonitor(Hook):
    """Tokens a second against the run's own median, and the share of time spent waiting for data."""

    name = "guard-speed"

    def __init__(self) -> None:
        self.rates: deque[float] = deque(maxlen=200)
        self.slow = 0
        self.waits: deque[float] = deque(maxlen=50)
        self.said: set[str] = set()

    def after_step(self, view: View) -> None:
        """Twenty slow steps in a row are no accident."""
        rate = view.row.get("train/tokens_per_s")
        wait = view.row.get("train/data_wait_s")
        if not isinstance(rate, int | float) or rate <= 0:
            return
        if isinstance(wait, int | float):
            tokens = max(1, int(view.batch.inputs.numel())) if view.batch is not None else 1
            self.waits.append(min(1.0, float(wait) * rate / tokens))
        usual = sorted(self.rates)[len(self.rates) // 2] if len(self.rates) >= 40 else None
        if usual is not None and rate < 0.5 * usual:
            self.slow += 1
        else:
            self.slow = 0
            self.rates.append(float(rate))
        if self.slow == 20 and "slow" not in self.said:
            self.said.add("slow")
            add(
                view,
                Finding(
                    "RECORD/slower",
                    "warn",
                    "run",
                    location=f"run: step {view.step}",
                    numbers=numbers(step=view.step, rate=float(rate), usual=usual),
                ),
            )
        if len(self.waits) == 50:
            share = sorted(self.waits)[25]
            if share > 0.2 and "wait" not in self.said:
                self.said.add("wait")
                add(
                    view,
                    Finding(
                        "RECORD/waits-for-data",
                        "warn",
                        "run",
                        location=f"run: step {view.step}",
                        numbers=numbers(step=view.step, share=share),
                    ),
                )


class ScoreMonitor(Hook):
    """Looks at validation scores as they come: one domain rising while the mean falls, a gap that opens, a validation too good to be true."""

    name = "guard-scores"

    def __init__(self) -> None:
        self.history: dict[str, list[float]] = {}
        self.gaps: list[float] = []
        self.said: set[str] = set()

    def after_step(self, view: View) -> None:
        """Only steps that carry scores."""
        scores = {
            key: float(value)
            for key, value in view.row.items()
            if key.startswith("val/") and key.endswith("/loss") and isinstance(value, int | float)
        }
        if not scores:
            return
        for key, value in scores.items():
            self.history.setdefault(key, []).append(value)
        self._domains(view)
        self._gap(view, scores)

    def _domains(self, view: View) -> None:
        total = self.history.get("val/all/loss", [])
        if len(total) < 4 or not total[-1] < total[-4]:
            return
        for key, values in self.history.items():
            if key == "val/all/loss" or len(values) < 4 or key in self.said:
                continue
            rising = values[-1] > values[-2] > values[-3] > values[-4] and values[-1] > min(values) + 0.05
            if rising:
                self.said.add(key)
                name = key.split("/")[1]
                add(
                    view,
                    Finding(
                        "CURVE/domain-rises",
                        "warn",
                        "run",
                        location=f"run: {name}",
                        numbers=numbers(
                            step=view.step,
                            slice=name,
                            value=values[-1],
                            best=min(values),
                            mean_fell=total[-4] - total[-1],
                        ),
                    ),
                )

    def _gap(self, view: View, scores: dict[str, float]) -> None:
        train = view.row.get("train_eval/loss")
        whole = scores.get("val/all/loss")
        if not isinstance(train, int | float) or whole is None:
            return
        gap = whole - float(train)
        self.gaps.append(gap)
        view.log({"guard/gap": gap})
        if (
            len(self.gaps) >= 4
            and "gap" not in self.said
            and self.gaps[-1] > self.gaps[-2] > self.gaps[-3]
            and gap > min(self.gaps) + 0.25
            and gap > 0.3
        ):
            self.said.add("gap")
            add(
                view,
                Finding(
                    "CURVE/gap-opens",
                    "warn",
                    "run",
                    location=f"run: step {view.step}",
                    numbers=numbers(step=view.step, gap=gap, least=min(self.gaps)),
                ),
            )

    def state_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"history": self.history, "gaps": self.gaps, "said": sorted(self.said)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.history, self.gaps, self.said = dict(state["history"]), list(state["gaps"]), set(state["said"])


class LayerMonitor(Hook):
    """Evidence, not alarms: update size, scale of activations, share of dead units, a layer at a time; and layers that have stopped moving."""

    name = "guard-layers"
    sees_inside = True

    def __init__(self, every: int = 50) -> None:
        self.every = Every(steps=every)
        self.handles: list[Any] = []
        self.figures: dict[str, float] = {}
        self.before: dict[str, torch.Tensor] = {}
        self.still: dict[str, int] = {}
        self.said: set[str] = set()

    def before_step(self, view: View) -> None:
        """Listen to the blocks during this step only."""
        for name, block in _blocks(view.model):
            self.handles.append(block.register_forward_hook(self._listener(name)))

    def _listener(self, name: str) -> Any:
        def hook(_: nn.Module, inputs: Any, output: Any) -> None:
            tensor = output[0] if isinstance(output, tuple) else output
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                wide = tensor.detach()
                self.figures[f"layers/{name}/rms"] = float(wide.float().square().mean().sqrt())

        return hook

    def after_backward(self, view: View) -> None:
        """Remember the weights for the size of the update."""
        for handle in self.handles:
            handle.remove()
        self.handles = []
        self.before = {name: p.detach().clone() for name, p in view.model.named_parameters() if p.dim() >= 2}

    def after_step(self, view: View) -> None:
        """Log; say once that a matrix no longer moves at all."""
        groups: dict[str, list[float]] = {}
        for name, parameter in view.model.named_parameters():
            old = self.before.get(name)
            if old is None:
                continue
            moved = float(
                (parameter.detach().float() - old.float()).norm() / old.float().norm().clamp_min(1e-8)
            )
            groups.setdefault(_layer(name), []).append(moved)
            self.still[name] = 0 if moved > 0 else self.still.get(name, 0) + 1
            if self.still[name] == 3 and name not in self.said and not view.skipped:
                self.said.add(name)
                add(
                    view,
                    Finding(
                        "OPT-WIRING/stopped-moving",
                        "warn",
                        "run",
                        location=f"run: {name}",
                        numbers=numbers(step=view.step, name=name),
                    ),
                )
        self.before = {}
        figures = {f"layers/{name}/update": max(values) for name, values in groups.items()}
        view.log({**self.figures, **figures})
        dead = [name for name, value in self.figures.items() if not value > 0]
        if dead and "dead" not in self.said:
            self.said.add("dead")
            add(
                view,
                Finding(
                    "NUMERIC/dead-layer",
                    "warn",
                    "run",
                    location=f"run: {dead[0]}",
                    numbers=numbers(step=view.step, layers=len(dead)),
                ),
            )
        self.figures = {}


def _layer(name: str) -> str:
    parts = name.split(".")
    for index, part in enumerate(parts):
        if part.isdigit():
            return ".".join(parts[: index + 1])
    return parts[0]


def _blocks(module: nn.Module) -> list[tuple[str, nn.Module]]:
    best: list[tuple[str, nn.Module]] = []
    for prefix, child in module.named_modules():
        if isinstance(child, nn.ModuleList) and len(child) > len(best):
            best = [(f"{prefix}.{index}" if prefix else str(index), item) for index, item in enumerate(child)]
    return best
