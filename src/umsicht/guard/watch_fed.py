"""The first batches of a foreign loop as the model is fed them, read once: begin and end tokens, what is trained, who speaks, which side shifts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from umsicht.findings import Finding, UserError
from umsicht.guard.check import make_subject, run
from umsicht.guard.subject import Subject, numbers
from umsicht.guard.watch_log import WatchLog

READ = 16
"""Calls of the model."""
ROWS = 16
"""Rows of each."""
PROBES = ("T3 batches", "T6", "T6 answers")
"""Those that need neither weights nor a loss."""
PADS = 0.01
"""Share of the labels from which trained padding is no slip of a mask."""


class FirstBatches:
    """Collects what the model is called with; judges after `READ` calls, or at the end of a shorter training."""

    def __init__(self, log: WatchLog, model: nn.Module, tokenizer: Any = None) -> None:
        self.log, self.model, self.tokenizer = log, model, tokenizer
        self._kept: list[dict[str, torch.Tensor]] = []
        self._judged = False

    def see(self, ids: torch.Tensor, keywords: Mapping[str, Any]) -> None:
        """One call of the model in training."""
        if self._judged or ids.dim() != 2:
            return
        beside = {name: keywords.get(name) for name in ("attention_mask", "labels")}
        fitting = {k: v for k, v in beside.items() if isinstance(v, torch.Tensor) and v.shape == ids.shape}
        self._kept.append({k: v[:ROWS].detach().cpu() for k, v in {"input_ids": ids, **fitting}.items()})
        if len(self._kept) == READ:
            self.judge()

    def judge(self) -> None:
        """Say what the batches say. Nothing is said of a call that cannot be read as a batch."""
        if self._judged or not self._kept:
            return
        self._judged = True
        try:
            subject = make_subject(None, None, self._kept, self.tokenizer, None, n_batches=READ)
        except UserError:
            return
        found = [*run(subject, all=True, only=PROBES), *_pads_trained(subject), *self._shifted_twice(subject)]
        for one in found:
            if one.id != "RECORD/probe-failed":
                self.log.add(one.id, one.grade, one.location, once=True, **one.numbers)
        self._kept = []

    def _shifted_twice(self, subject: Subject) -> list[Finding]:
        """A model of `transformers` shifts the labels it is handed; these are shifted already."""
        name = type(getattr(self.model, "module", self.model)).__name__
        shifts = hasattr(self.model, "config") and name.endswith(("ForCausalLM", "LMHeadModel"))
        if not shifts or subject.label_offset != 1:
            return []
        said = numbers(offset=2, share=1.0, label_offset=1)
        return [Finding("TARGET-SHIFT/offset", "stop", "target-shift", location="targets", numbers=said)]


def _pads_trained(subject: Subject) -> list[Finding]:
    """Labels at positions that the attention mask calls padding: a loss that reads labels alone trains on them."""
    padded = active = 0
    for example in subject.examples:
        if example.labels is not None:
            marked = example.labels >= 0
            active += int(marked.sum())
            padded += int((marked & ~example.real).sum())
    if not padded or padded < PADS * active:
        return []
    said = numbers(positions=padded, share_of_weight=padded / active, active=active, expected=active - padded)
    return [Finding("TARGET-MASK/pad-active", "stop", "active-targets", location="targets", numbers=said)]
