"""Faults of fine-tuning in somebody else's loop and data: which words of a conversation are learned, what a preference is compared with."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from bench.faults.case import case
from bench.faults.cases.foreign import LENGTH, VOCAB, Small, subject
from bench.faults.cases.loops import evaluate, looped, step
from umsicht.findings import Finding
from umsicht.guard import Declared

BOS, EOS, PAD, USER, ASSISTANT, END = 1, 2, 0, 4, 5, 6
NAMES = {
    BOS: "<bos>",
    EOS: "<eos>",
    PAD: "<pad>",
    USER: "<|user|>",
    ASSISTANT: "<|assistant|>",
    END: "<|end|>",
}


class Speaking:
    """Every byte is two tokens; begin, end and pad tokens, and marks of a conversation beside them."""

    bos_token_id, eos_token_id, pad_token_id = BOS, EOS, PAD

    def __len__(self) -> int:
        return VOCAB

    def encode(self, text: str) -> list[int]:
        """Two ids a byte."""
        return [half for byte in text.encode() for half in (10 + byte // 16, 30 + byte % 16)]

    def decode(self, ids: list[int]) -> str:
        """The text, or the names of marks with a point for everything else."""
        if any(int(one) < 10 for one in ids):
            return "".join(NAMES.get(int(one), ".") for one in ids)
        pairs = zip(ids[::2], ids[1::2], strict=False)
        return bytes(((int(a) - 10) * 16 + int(b) - 30) % 256 for a, b in pairs).decode(errors="replace")


def conversation(generator: torch.Generator, table: torch.Tensor, turns: int) -> tuple[list[int], list[bool]]:
    """Ids of begin token, questions and answers, and which of them are the assistant's (its end mark too)."""
    ids, own = [BOS], [False]
    for _ in range(turns):
        asked, answered = (int(torch.randint(3, 7, (1,), generator=generator)) for _ in range(2))
        words = [int(torch.randint(10, VOCAB, (1,), generator=generator))]
        for _ in range(asked + answered - 1):
            words.append(int(table[words[-1], int(torch.randint(0, 2, (1,), generator=generator))]))
        ids += [USER, *words[:asked], END, ASSISTANT, *words[asked:], END]
        own += [False] * (asked + 3) + [True] * (answered + 1)
    return ids[:LENGTH], own[:LENGTH]


Change = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""(ids, real, trained) → trained."""


def talking(change: Change = lambda ids, real, trained: trained, turns: int = 1) -> dict[str, Any]:
    """A loop that trains on answers; `change` says what is trained instead."""
    return looped(batches=talks(change, turns), tokenizer=Speaking(), declared=Declared(loss_on="responses"))


def talks(change: Change, turns: int = 1) -> list[dict[str, torch.Tensor]]:
    """Batches of four conversations, padded on the right."""
    generator = torch.Generator().manual_seed(1)
    table = torch.randint(10, VOCAB, (VOCAB, 2), generator=torch.Generator().manual_seed(0))
    batches = []
    for _ in range(10):
        ids, real = torch.full((4, LENGTH), PAD), torch.zeros(4, LENGTH, dtype=torch.bool)
        trained = torch.zeros_like(real)
        for row in range(4):
            words, own = conversation(generator, table, turns)
            ids[row, : len(words)], real[row, : len(words)] = torch.tensor(words), True
            trained[row, : len(words)] = torch.tensor(own)
        labels = ids.masked_fill(~(change(ids, real, trained) & real), -100)
        batches.append({"input_ids": ids, "attention_mask": real.long(), "labels": labels})
    return batches


def _one_early(ids: torch.Tensor, real: torch.Tensor, trained: torch.Tensor) -> torch.Tensor:
    """The mask of the answer begins and ends a token too soon."""
    return torch.cat([trained[:, 1:], torch.zeros_like(trained[:, :1])], dim=1)


case(
    "X27",
    "TARGET-MASK",
    "targets",
    {"foreign": lambda: talking(lambda ids, real, trained: trained & (ids != END))},
    {"foreign": lambda: talking(_one_early, turns=2)},
)
case(
    "X28",
    "TARGET-MASK",
    "targets",
    {"foreign": lambda: talking(lambda ids, real, trained: real)},
    {"foreign": lambda: talking(lambda ids, real, trained: real & ~trained)},
)


class Preferring:
    """The preference (Rafailov et al. 2023) of even rows over the odd ones behind them, against a reference."""

    def __init__(self, reference: nn.Module | None, *, on_prompts: bool = False) -> None:
        self.reference = reference
        self.on_prompts = on_prompts

    def logps(self, model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Log-probability of each row's answer `[rows]`."""
        targets = batch["labels"][:, 1:]
        if self.on_prompts:
            targets = batch["input_ids"][:, 1:].masked_fill(batch["attention_mask"][:, 1:] == 0, -100)
        given: torch.Tensor = model(batch["input_ids"], batch["attention_mask"])[:, :-1].log_softmax(-1)
        chosen = given.gather(-1, targets.clamp_min(0).unsqueeze(-1)).squeeze(-1)
        return (chosen * (targets >= 0)).sum(1)

    def __call__(self, model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Minus the log of the likelihood of the choices."""
        with torch.no_grad():
            before = self.logps(self.reference or model, batch)
        reward = 0.1 * (self.logps(model, batch) - before)
        return -functional.logsigmoid(reward[0::2] - reward[1::2]).mean()


def preferring(own: bool = False, dropout: float = 0.0, **options: bool) -> dict[str, Any]:
    """A loop that trains a preference against a frozen copy, or (`own`) against the model itself."""
    model = Small()
    model.norm = nn.Sequential(model.norm, nn.Dropout(dropout))
    loss = Preferring(None if own else copy.deepcopy(model).requires_grad_(False).eval(), **options)

    def one(model: Any, optimizer: Any, batches: Any) -> None:
        optimizer.zero_grad()
        for batch in batches:
            (loss(model, batch) / len(batches)).backward()
        optimizer.step()

    made = subject(model=model, batches=talks(lambda ids, real, trained: trained), tokenizer=Speaking())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    return {**made, "loss": loss, "optimizer": optimizer, "train_step": one}


case(
    "X29",
    "ADAPTER TARGET-MASK",
    "loss",
    {"foreign": lambda: preferring(own=True)},
    {"foreign": lambda: preferring(on_prompts=True)},
)
case(
    "X30",
    "ADAPTER",
    "model",
    {"foreign": lambda: preferring(dropout=0.3)},
    {"foreign": lambda: preferring(dropout=0.01)},
)


def ahead(plan: Callable[[int], float], by: int = 1) -> dict[str, Any]:
    """A loop that sets its rate from a counter of its own; `by` 1 reads the next step's."""
    model = Small()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    done = {"steps": 0}

    def counted(model: Any, optimizer: Any, batches: Any) -> None:
        for group in optimizer.param_groups:
            group["lr"] = plan(done["steps"] + by)
        done["steps"] += 1
        step(model, optimizer, batches)

    return looped(model=model, optimizer=optimizer, train_step=counted, schedule=plan, evaluate=evaluate)


case(
    "X31",
    "OPT-WIRING",
    "schedule",
    {"foreign": lambda: ahead(lambda number: 1e-3 * min(1.0, (number + 1) / 40))},
    {"foreign": lambda: ahead(lambda number: 1e-3 / (1 + 0.002 * number))},
)


def averaging(kept: float, update: bool = True) -> dict[str, Any]:
    """A loop whose evaluation scores a moving average of the weights, put in and taken out again; without `update` it stays where it began."""
    model = Small()
    average = copy.deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def put(weights: list[torch.Tensor]) -> list[torch.Tensor]:
        live = [parameter.detach().clone() for parameter in model.parameters()]
        for parameter, weight in zip(model.parameters(), weights, strict=True):
            parameter.copy_(weight)
        return live

    def trained(model: Any, optimizer: Any, batches: Any) -> None:
        step(model, optimizer, batches)
        with torch.no_grad():
            for mean, parameter in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(parameter, 1 - kept if update else 0.0)

    def scored(model: Any, batches: Any) -> float:
        live = put(list(average.parameters()))
        try:
            return evaluate(model, batches)
        finally:
            put(live)

    return looped(model=model, train_step=trained, evaluate=scored)


def _frozen(scoring: Callable[..., float]) -> Callable[..., float]:
    """An evaluation that keeps the model as it saw it first."""
    kept: list[Any] = []

    def stale(model: Any, batches: Any) -> float:
        if not kept:
            kept.append(copy.deepcopy(model))
        return scoring(kept[0], batches)

    return stale


case(
    "X34",
    "EVAL-VALIDITY",
    "evaluation",
    {"foreign": lambda: averaging(0.9, update=False)},
    {"foreign": lambda: looped(evaluate=_frozen(evaluate))},
)


def said(change: Callable[[str, str, int], tuple[str, str]]) -> Callable[[Path], list[Finding]]:
    """Sixty rows of a file of conversations, read as before a stage."""

    def verb(folder: Path) -> list[Finding]:
        from bench.finetune.project import write_rows
        from umsicht.finetune import contents
        from umsicht.finetune.loading import load

        dice, rows = random.Random(3), []
        for number in range(60):
            words = [dice.choice(("red", "house", "river", "stone", "paper", "wind")) for _ in range(12)]
            asked, answered = change(f"Tell me of {number} things?", f"{' '.join(words)}.", number)
            rows.append({"instruction": asked, "output": answered})
        return contents.read(load([write_rows(folder / "rows.jsonl", rows)]).rows)

    return verb


case(
    "X32",
    "FINETUNE",
    "row*",
    {"verb": said(lambda q, a, n: (f"<|im_start|>user\n{q}<|im_end|>", a))},
    {"verb": said(lambda q, a, n: (q, f"{a}</s>" if n % 20 == 0 else a))},
)
case(
    "X33",
    "FINETUNE",
    "row*",
    {"verb": said(lambda q, a, n: (a, q))},
    {"verb": said(lambda q, a, n: (q, "I cannot help with that." if n % 6 == 0 else a))},
)
