"""Direct preference optimisation (Rafailov et al. 2023): make the chosen answer likelier than the rejected one, held to a reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from umsicht.model import Transformer
from umsicht.tokenizer import Tokenizer
from umsicht.tokenizer.chat import render
from umsicht.tokens.batch import Batch, split_rows
from umsicht.tokens.permutation import Permutation, derive_key
from umsicht.train.objective import LossSums
from umsicht.words import t

from .loading import Refused
from .reference import Reference, logps_of
from .rows import Preference
from .supervised import Example, collate

ROUNDED_TO = 32
"""Rows are padded to a multiple of this, so that few shapes occur."""


@dataclass(frozen=True)
class Pair:
    """Both answers to one prompt, rendered; only the answer's own tokens are targets."""

    id: str
    chosen: Example
    rejected: Example


def rendered_pairs(
    rows: Sequence[Preference], tokenizer: Tokenizer, seq_len: int
) -> tuple[list[Pair], list[Refused]]:
    """Pairs that fit into `seq_len`. Cutting an answer would change which is preferred, so longer ones are refused."""
    pairs, refused = [], []
    for row in rows:
        answers = [_answer(row, text, tokenizer) for text in (row.chosen, row.rejected)]
        longest = max(len(a.ids) for a in answers)
        if longest > seq_len + 1:
            refused.append(Refused(row.id, t("finetune.row.too_long", detail=str(longest))))
        else:
            pairs.append(Pair(row.id, *answers))
    return pairs, refused


def _answer(row: Preference, text: str, tokenizer: Tokenizer) -> Example:
    whole = render([*row.prompt, {"role": "assistant", "content": text}], tokenizer)
    before = len(render(row.prompt, tokenizer, add_generation_prompt=True).ids)
    # Earlier answers in the prompt are not what is compared.
    mask = [active and place >= before for place, active in enumerate(whole.assistant_mask)]
    return Example(row.id, tuple(whole.ids), tuple(mask))


class PairSource:
    """Pairs as a batch source: rows 2i and 2i + 1 are the chosen and the rejected answer of one pair, never parted."""

    def __init__(self, pairs: Sequence[Pair], *, batch_pairs: int, seed: int, pad_id: int) -> None:
        self.pairs = list(pairs)
        self.batch_pairs = batch_pairs
        self.seed = seed
        self.pad_id = pad_id
        longest = max(max(len(p.chosen.ids), len(p.rejected.ids)) for p in pairs) - 1
        self.seq_len = -(-longest // ROUNDED_TO) * ROUNDED_TO

    @property
    def tokens_per_batch(self) -> int:
        """Positions of a step, padding included."""
        return 2 * self.batch_pairs * self.seq_len

    def numbers(self, step: int) -> list[int]:
        """Numbers of the pairs of `step`."""
        n = len(self.pairs)
        indices = range(step * self.batch_pairs, (step + 1) * self.batch_pairs)
        return [int(Permutation(n, derive_key(self.seed, i // n))(i % n)[0]) for i in indices]

    def in_order(self) -> Iterator[Batch]:
        """All pairs once, as they came, in batches of `batch_pairs` and a rest."""
        for start in range(0, len(self.pairs), self.batch_pairs):
            yield self.collated(list(range(start, min(start + self.batch_pairs, len(self.pairs)))))

    def collated(self, numbers: Sequence[int]) -> Batch:
        """The pairs with these numbers as one batch; `rows` holds 2·number and 2·number + 1."""
        rows = [[answer] for n in numbers for answer in (self.pairs[n].chosen, self.pairs[n].rejected)]
        return collate(rows, self.seq_len, self.pad_id, [2 * n + side for n in numbers for side in (0, 1)])

    def batch(self, step: int) -> Batch:
        """All pairs of `step`."""
        return self.collated(self.numbers(step))

    def micro_batches(self, step: int, rows: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """This rank's pairs of `step`, whole pairs of at most `rows` rows at a time (one pair at least)."""
        whole = self.batch(step)
        first, last = split_rows(self.batch_pairs, rank, world)
        some = max(1, rows // 2)
        for start in range(first, last, some):
            yield whole.slice(2 * start, 2 * min(start + some, last))

    def epoch(self, step: int) -> float:
        """Passes over the pairs before `step`."""
        return step * self.batch_pairs / len(self.pairs)

    def state(self) -> dict[str, Any]:
        """What the order depends on."""
        return {"kind": "pairs", "pairs": len(self.pairs), "batch_rows": self.batch_pairs, "seed": self.seed}


class PairObjective(Protocol):
    """A loss over pairs that keeps figures of what it saw."""

    def __call__(self, model: Any, batch: Batch) -> LossSums: ...

    def figures(self) -> dict[str, float]: ...


class PreferenceObjective:
    """-log σ(β · ((log π(c) − log π_ref(c)) − (log π(r) − log π_ref(r)))), summed over pairs; ln 2 while policy and
    reference are the same.

    `figures` holds means over what was seen since it was last cleared: `margin`, `accuracy`, `chosen`, `rejected`.
    """

    def __init__(self, reference: Reference | Mapping[int, float], beta: float) -> None:
        self.reference = reference
        self.beta = beta
        self.seen: list[Tensor] = []

    def units(self, batch: Batch) -> int:
        """What the loss is averaged over: pairs."""
        return batch.inputs.shape[0] // 2

    def __call__(self, model: Any, batch: Batch) -> LossSums:
        """Sums over the pairs of `batch`, float32."""
        rewards = self.beta * (logps_of(model, batch).sum(1) - self._reference_logps(batch))
        chosen, rejected = rewards[0::2], rewards[1::2]
        loss = -F.logsigmoid(chosen - rejected).sum()
        self.seen.append(torch.stack((chosen, rejected), dim=1).detach())
        return LossSums(loss, loss.detach())

    def _reference_logps(self, batch: Batch) -> Tensor:
        if isinstance(self.reference, Reference):
            return self.reference.logps(batch).sum(1)
        values = [self.reference[int(row)] for row in batch.rows]
        return torch.tensor(values, dtype=torch.float32, device=batch.inputs.device)

    def figures(self) -> dict[str, float]:
        """Means over the pairs since the last call."""
        if not self.seen:
            return {}
        rewards = torch.cat(self.seen).cpu()
        self.seen.clear()
        margins = rewards[:, 0] - rewards[:, 1]
        return {
            "dpo/margin": float(margins.mean()),
            "dpo/accuracy": float((margins > 0).float().mean()),
            "dpo/reward_chosen": float(rewards[:, 0].mean()),
            "dpo/reward_rejected": float(rewards[:, 1].mean()),
        }


def precompute(reference: Reference, source: PairSource, device: torch.device) -> dict[int, float]:
    """The reference's log-probability of every row, asked once. Keys as in `Batch.rows`."""
    out: dict[int, float] = {}
    for batch in source.in_order():
        values = reference.logps(batch.to(device)).sum(1).tolist()
        out |= dict(zip(batch.rows.tolist(), values, strict=True))
    return out


@torch.no_grad()
def mean_loss(
    objective: PairObjective, model: Transformer, source: PairSource, device: torch.device
) -> dict[str, float]:
    """Loss and figures over all pairs of `source`, the model in its present mode."""
    total = 0.0
    objective.figures()
    for batch in source.in_order():
        total += float(objective(model, batch.to(device)).nats)
    return {"loss": total / len(source.pairs), **objective.figures()}
