"""Faults replayed from public bug reports, in loops that are not Umsicht's: masks, preferences, policy gradients, added tokens, what a monitor is shown."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bench.faults import ranks_watched
from bench.faults.case import case
from bench.faults.cases.answering import ASSISTANT, Preferring, Speaking, talking, talks
from bench.faults.cases.foreign import LENGTH, WIDTH, Small, batch, loss, rows, subject
from bench.faults.cases.loops import adapted, looped, step
from umsicht.findings import Finding
from umsicht.guard import watch

Batch = dict[str, torch.Tensor]
Loss = Callable[[Any, Batch], torch.Tensor]


def as_given(ids: torch.Tensor, real: torch.Tensor, trained: torch.Tensor) -> torch.Tensor:
    """The answers."""
    return trained


def one_late(ids: torch.Tensor, real: torch.Tensor, trained: torch.Tensor) -> torch.Tensor:
    """The answers without their first token."""
    return trained & torch.cat([torch.zeros_like(trained[:, :1]), trained[:, :-1]], 1)


case(
    "X35",
    "TARGET-MASK",
    "targets",
    {"foreign": lambda: talking(one_late)},
    {"foreign": lambda: talking(one_late, turns=2)},
)


def accumulated(loss: Loss, batches: list[Batch]) -> dict[str, Any]:
    """A loop around a loss of its own, averaged over micro-batches."""
    model = Small()

    def one(model: Any, optimizer: Any, batches: Any) -> None:
        optimizer.zero_grad()
        for each in batches:
            (loss(model, each) / len(batches)).backward()
        optimizer.step()

    made = subject(model=model, batches=batches, tokenizer=Speaking())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    return {**made, "loss": loss, "optimizer": optimizer, "train_step": one}


class Averaging(Preferring):
    """Preferences of mean log-probabilities: over the answer, or (`padded`) over the width of the batch."""

    def __init__(self, padded: bool) -> None:
        super().__init__(copy.deepcopy(Small()).requires_grad_(False).eval())
        self.padded = padded

    def logps(self, model: Any, batch: Batch) -> torch.Tensor:
        """The mean over each row."""
        counts = (batch["labels"][:, 1:] >= 0).sum(1)
        return super().logps(model, batch) / (batch["labels"].shape[1] - 1 if self.padded else counts)


class Rewarded:
    """A policy gradient: minus advantage times log-probability, over the tokens of answers (`divides` "tokens") or over all places."""

    def __init__(self, sign: float = 1.0, divides: str = "tokens") -> None:
        self.sign, self.divides = sign, divides

    def __call__(self, model: Any, batch: Batch) -> torch.Tensor:
        """One number."""
        ids, mask = batch["input_ids"], batch["completion_mask"][:, 1:].float()
        logits = model(ids, batch["attention_mask"])[:, :-1]
        logps = logits.log_softmax(-1).gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
        ratio = (logps - logps.detach()).exp()
        gained = -self.sign * ratio * batch["advantages"][:, None] * mask
        return gained.mean() if self.divides == "places" else gained.sum() / mask.sum()


def rewarded(**options: Any) -> dict[str, Any]:
    """A loop of a policy gradient over groups of four answers."""
    generator = torch.Generator().manual_seed(2)
    batches = []
    for one in talks(as_given):
        gains = torch.randn(4, generator=generator)
        answers = (one.pop("labels") >= 0).long()
        gains = (gains - gains.mean()) / gains.std()
        batches.append({**one, "completion_mask": answers, "advantages": gains})
    return accumulated(Rewarded(**options), batches)


case(
    "X36",
    "TARGET-MASK",
    "loss",
    {"foreign": lambda: rewarded(divides="places")},
    {"foreign": lambda: accumulated(Averaging(padded=True), talks(as_given))},
)
case(
    "X37",
    "ADAPTER",
    "loss",
    {"foreign": lambda: rewarded(sign=-1.0)},
    {"foreign": lambda: rewarded(sign=-0.01)},
)


def with_new_tokens(noise: float | None) -> dict[str, Any]:
    """Adapters on a frozen model whose marks of a conversation were added: the mean of all rows and a little noise."""
    made = adapted()
    table = made["model"].embed.weight
    if noise is not None:
        with torch.no_grad():
            drawn = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(5))
            table[4:7] = table[10:].mean(0) + noise * table.std() * drawn
    return {**made, "batches": talks(as_given), "tokenizer": Speaking()}


case(
    "X38",
    "OPT-WIRING",
    "embedding",
    {"foreign": lambda: with_new_tokens(0.0)},
    {"foreign": lambda: with_new_tokens(0.01)},
)


def padded_left(masked: Callable[[Batch], torch.Tensor | None], share: int = 1) -> dict[str, Any]:
    """Rows padded on the left, in every `share`th batch; `masked` says what the model is handed."""

    def planted(model: Any, one: Batch) -> torch.Tensor:
        return loss(model(one["input_ids"], masked(one)), one["labels"])

    batches = [batch(n, "" if n % share else "left") for n in range(1, 11)]
    return subject(batches=batches, loss=planted, tokenizer=Speaking())


case(
    "X39",
    "CONTEXT LEAK-DOC",
    "model",
    {"foreign": lambda: padded_left(lambda one: None)},
    {"foreign": lambda: padded_left(lambda one: None, share=7)},
)


def with_open_turn(share: int) -> dict[str, Any]:
    """A header of another answer behind the sample, in `share` of four rows."""
    batches = talks(as_given)
    for one in batches:
        for row in range(share):
            end = int(one["attention_mask"][row].sum())
            if end < LENGTH:
                one["input_ids"][row, end] = one["labels"][row, end] = ASSISTANT
                one["attention_mask"][row, end] = 1
    return looped(batches=batches, tokenizer=Speaking())


case(
    "X40",
    "BOUNDARY-TOKEN",
    "rows",
    {"foreign": lambda: with_open_turn(4)},
    {"foreign": lambda: with_open_turn(3)},
)


def together(plant: str) -> Callable[[Path], list[Finding]]:
    """Two processes in a plain loop, each with a monitor."""
    return lambda folder: ranks_watched.findings(folder, plant)


case(
    "X41",
    "RANK",
    "ranks",
    {"verb": together("never-wrapped")},
    {"verb": together("one-tensor-not-reduced")},
)
case(
    "X42",
    "DATA-ORDER",
    "data order",
    {"verb": together("same-batches")},
    {"verb": together("other-order")},
)


def watched(
    batches: Callable[[], list[torch.Tensor]], rate: Callable[[int], float] | None = None, **options: Any
) -> Callable[[Path], list[Finding]]:
    """A plain loop with a monitor; `rate` is set after each update for the next."""

    def verb(folder: Path) -> list[Finding]:
        model = Small()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        with watch(folder / "watched", model, optimizer, **options) as monitor:
            for number, ids in enumerate(batches()):
                optimizer.zero_grad()
                value = loss(model(ids), ids)
                value.backward()
                optimizer.step()
                monitor.step(value)
                for group in optimizer.param_groups:
                    group["lr"] = rate(number + 1) if rate is not None else group["lr"]
        return monitor.findings

    return verb


def passes(count: int, shuffled: bool) -> list[torch.Tensor]:
    """So many passes over 64 rows, in batches of four."""
    everything, generator = rows(64, 9), torch.Generator().manual_seed(0)
    order = torch.randperm(64, generator=generator)
    out: list[torch.Tensor] = []
    for _ in range(count):
        out += everything[order].split(4)
        order = torch.randperm(64, generator=generator) if shuffled else order
    return out


case(
    "X43",
    "DATA-ORDER",
    "data order",
    {"verb": watched(lambda: passes(3, shuffled=False))},
    {"verb": watched(lambda: passes(2, shuffled=False), repeats_are_fine=True)},
)
case(
    "X44",
    "OPT-WIRING",
    "schedule",
    {
        "verb": watched(
            lambda: passes(2, shuffled=True), lambda n: 1e-3 * max(0.0, 1 - n / 12), repeats_are_fine=True
        )
    },
    {
        "verb": watched(
            lambda: passes(2, shuffled=True), lambda n: 1e-3 * min(1.0, n / 20), repeats_are_fine=True
        )
    },
)


def rounded() -> dict[str, Any]:
    """A healthy step under autocast."""

    def one(model: Any, optimizer: Any, batches: Any) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            step(model, optimizer, batches)

    return looped(train_step=one)


HEALTHY: dict[str, Callable[[], dict[str, Any]]] = {
    "loop that is rewarded": rewarded,
    "loop that prefers means": lambda: accumulated(Averaging(padded=False), talks(as_given)),
    "loop under autocast": rounded,
    "adapters on a frozen embedding": lambda: with_new_tokens(None),
    "rows padded on the left": lambda: padded_left(lambda one: one["attention_mask"]),
    "whole conversations": lambda: looped(
        batches=talks(lambda ids, real, trained: real), tokenizer=Speaking()
    ),
}
