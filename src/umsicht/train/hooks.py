"""Hooks with a frequency: the only way anything hangs itself into the training loop.

A step passes three moments, all of them with the same `view.step` (the number the step will have once it is done, counted from 1):
`before_step`, `after_backward` (gradients are summed and measured, the optimizer has not moved) and `after_step`. `at_start`,
`at_checkpoint` and `at_end` come whatever the frequency. A hook that has `state_dict` and `load_state_dict` is saved in every
checkpoint and restored on resume.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from umsicht.train.ranks import ONE, Ranks

if TYPE_CHECKING:
    import torch
    from torch import nn

    from umsicht.findings import Finding
    from umsicht.record import Run
    from umsicht.train.optimizer import Optimizer

Skip = Literal["skip"]
Moment = Literal["at_start", "before_step", "after_backward", "after_step", "at_checkpoint", "at_end"]


@dataclass(frozen=True)
class Every:
    """How often: exactly one of steps, tokens, seconds. Steps and tokens are exact and survive a resume; seconds are wall time."""

    steps: int | None = None
    tokens: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        given = [value for value in (self.steps, self.tokens, self.seconds) if value is not None]
        if len(given) != 1 or given[0] <= 0:
            raise ValueError("Every needs exactly one positive figure of steps, tokens, seconds")

    def due(self, step: int, tokens: int, tokens_before: int, since_s: float) -> bool:
        """True where step number `step`, which took the run from `tokens_before` to `tokens`, is one of ours."""
        if self.steps is not None:
            return step % self.steps == 0
        if self.tokens is not None:
            return tokens // self.tokens > tokens_before // self.tokens
        return since_s >= (self.seconds or 0.0)


EVERY_STEP = Every(steps=1)


class StopRun(Exception):
    """Raised by a hook to end the run before the optimizer moves; `finding` says why and is written to the record."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(getattr(finding, "id", str(finding)))
        self.finding = finding


@dataclass
class View:
    """What a hook sees of the run. Hooks read; only `log`, `skip` and `StopRun` write.

    `loss` is in nats per active target over the whole global batch, `grad_norm` is the norm before clipping, `lr` the
    rate of the first parameter group, `batch` this rank's part of the global batch (inputs and targets `[rows, seq]`). With several
    `ranks` every hook runs on each of them (but see `Hook.only_writer`), and only rank 0's run and row are written.
    """

    run: Run
    model: nn.Module
    optimizer: Optimizer
    device: torch.device
    total_steps: int
    step: int = 0
    tokens: int = 0
    epoch: float = 0.0
    loss: float = float("nan")
    grad_norm: float = float("nan")
    clipped: bool = False
    skipped: bool = False
    lr: float = 0.0
    active_targets: int = 0
    batch: Any = None
    row: dict[str, Any] = field(default_factory=dict)
    checkpoint: Path | None = None
    ranks: Ranks = ONE
    moved: int = 0
    """How often the weights have moved in this start."""

    def log(self, values: dict[str, Any]) -> None:
        """Add figures to this step's row of `metrics.jsonl`."""
        self.row.update(values)


class Hook:
    """Base of all hooks: give it a name and a frequency and override the moments you need.

    `only_writer`: of several ranks only the one that writes the record calls it; without `looks_at_model` no rank gathers a model for
    it. `sees_inside`: it reads gradients or activations of the
    model in place, so that it is left out where no process holds the whole model.
    """

    name: str = "hook"
    every: Every = EVERY_STEP
    only_writer: bool = False
    looks_at_model: bool = True
    sees_inside: bool = False

    def at_start(self, view: View) -> None:
        """Before the first step of a fresh run or of a resumed one."""

    def before_step(self, view: View) -> None:
        """The batch is there, nothing was computed."""

    def after_backward(self, view: View) -> Skip | None:
        """Loss and gradient are there, the weights have not moved. Return "skip" to leave this step out; raise StopRun to stop."""
        return None

    def after_step(self, view: View) -> None:
        """The weights have moved."""

    def at_checkpoint(self, view: View) -> None:
        """A checkpoint was written to `view.checkpoint`."""

    def at_end(self, view: View) -> None:
        """The run ended, for whatever reason."""


class CallHook(Hook):
    """A plain function as a hook at one moment."""

    def __init__(
        self,
        name: str,
        call: Callable[[View], Any],
        *,
        every: Every = EVERY_STEP,
        moment: Moment = "after_step",
    ) -> None:
        self.name = name
        self.every = every
        setattr(self, moment, call)


class HookSet:
    """The hooks of one run, called in the order given."""

    def __init__(
        self, hooks: tuple[Hook, ...], clock: Callable[[], float] = time.monotonic, ranks: Ranks = ONE
    ) -> None:
        names = [hook.name for hook in hooks]
        if len(set(names)) != len(names):
            raise ValueError(f"two hooks have the same name: {sorted(names)}")
        self._all = hooks
        self._ranks = ranks
        self._hooks = tuple(h for h in hooks if ranks.is_first or not getattr(h, "only_writer", False))
        self._clock = clock
        self._last = {hook.name: clock() for hook in hooks}
        self._due: tuple[Hook, ...] = ()
        self._due_names: set[str] = set()

    def begin_step(self, step: int, tokens_before: int, tokens: int) -> None:
        """Decide once for all three moments of this step which hooks are due."""
        now = self._clock()
        due = {
            h.name for h in self._all if h.every.due(step, tokens, tokens_before, now - self._last[h.name])
        }
        if any(h.every.seconds is not None for h in self._all):
            due = self._ranks.first(due)
        self._last.update(dict.fromkeys(due, now))
        self._due_names = due
        self._due = tuple(h for h in self._hooks if h.name in due)

    def before_step(self, view: View) -> None:
        for hook in self._due:
            hook.before_step(view)

    def after_backward(self, view: View) -> bool:
        """True where a hook asks to skip the step; every due hook is still called."""
        answers = [hook.after_backward(view) for hook in self._due]
        return "skip" in answers

    def after_step(self, view: View) -> None:
        self._look_together(view, self._due_names)
        for hook in self._due:
            hook.after_step(view)

    def _look_together(self, view: View, names: set[str]) -> None:
        """Where one rank alone will look at the model, all look first: a gathered model takes all of them."""
        looking = (
            h for h in self._all if getattr(h, "only_writer", False) and getattr(h, "looks_at_model", True)
        )
        if any(hook.name in names for hook in looking):
            _ = view.model

    def always(self, moment: Literal["at_start", "at_checkpoint", "at_end"], view: View) -> None:
        if moment == "at_end":
            self._look_together(view, {hook.name for hook in self._all})
        for hook in self._hooks:
            getattr(hook, moment)(view)

    def state_dict(self) -> dict[str, Any]:
        """State of the hooks that keep one, by name; JSON-able values only."""
        return {h.name: h.state_dict() for h in self._hooks if hasattr(h, "state_dict")}

    def load_state_dict(self, state: dict[str, Any]) -> list[str]:
        """Restore by name; returns names of hooks whose state the checkpoint does not have."""
        missing = []
        for hook in self._hooks:
            if not hasattr(hook, "load_state_dict"):
                continue
            if hook.name in state:
                hook.load_state_dict(state[hook.name])
            else:
                missing.append(hook.name)
        return missing
