"""A small reward model, trained from preference pairs: of two answers to a prompt it gives the better one more.

The score of an answer is the logit of the padding token behind the answer's end. That token is never a target, so its row of
the head is free, and a reward model needs no layer, no file format and no loader of its own. Trained by the Bradley–Terry
likelihood of the choices (Ouyang et al. 2022, "Training language models to follow instructions", eq. 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from umsicht.model import Transformer
from umsicht.score import evaluating
from umsicht.tokens.batch import IGNORE, Batch
from umsicht.train.objective import LossSums

from .preference import Pair
from .supervised import Example, collate


def asked(example: Example, pad_id: int) -> Example:
    """The example up to the answer's end token, then the padding token as the one target: there the score is read."""
    end = max(place for place, active in enumerate(example.mask) if active) + 1
    return scored([*example.ids[:end]], pad_id, example.id)


def scored(ids: Sequence[int], pad_id: int, name: str = "") -> Example:
    """Prompt and answer in ids, with the padding token behind them."""
    return Example(name, (*ids, pad_id), (*[False] * len(ids), True))


def asked_pairs(pairs: Sequence[Pair], pad_id: int) -> list[Pair]:
    """Both answers of each pair as `asked`."""
    return [Pair(p.id, asked(p.chosen, pad_id), asked(p.rejected, pad_id)) for p in pairs]


def scores_of(model: Transformer, batch: Batch) -> Tensor:
    """`[rows]` float32: the logit of each row's one target."""
    hidden = model.hidden(batch.inputs, document_ids=batch.document_ids)
    row, place = (batch.targets != IGNORE).nonzero(as_tuple=True)
    weights = model.head_weight[batch.targets[row, place]]
    scores = (hidden[row, place] * weights).sum(-1).float()
    softcap = model.config.softcap
    return scores if softcap is None else softcap * torch.tanh(scores / softcap)


class RewardObjective:
    """Sum over pairs of −log σ(score of the chosen − score of the rejected)."""

    def __init__(self) -> None:
        self._seen: list[Tensor] = []

    def units(self, batch: Batch) -> int:
        """What the loss is averaged over: pairs."""
        return batch.inputs.shape[0] // 2

    def __call__(self, model: Any, batch: Batch) -> LossSums:
        """Sums over the pairs of `batch`, float32."""
        scores = scores_of(model, batch)
        loss = -F.logsigmoid(scores[0::2] - scores[1::2]).sum()
        self._seen.append(scores.detach().view(-1, 2))
        return LossSums(loss, loss.detach())

    def figures(self) -> dict[str, float]:
        """Means over the pairs since the last call."""
        if not self._seen:
            return {}
        scores = torch.cat(self._seen).cpu()
        self._seen.clear()
        margins = scores[:, 0] - scores[:, 1]
        # a model that gives both the same has not chosen
        right = (margins > 0).float() + 0.5 * (margins == 0).float()
        return {"reward/margin": float(margins.mean()), "reward/accuracy": float(right.mean())}


class Judged:
    """A judge that asks a reward model; its weights do not move."""

    def __init__(self, model: Transformer, pad_id: int, *, batch_rows: int = 64) -> None:
        self._model = model.requires_grad_(False).eval()
        self._pad_id = pad_id
        self._batch_rows = batch_rows

    @torch.no_grad()
    def __call__(
        self, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], wanted: Sequence[str]
    ) -> list[float]:
        """The score of each answer behind its prompt."""
        rows = [[scored([*p, *a], self._pad_id)] for p, a in zip(prompts, answers, strict=True)]
        out: list[float] = []
        with evaluating(self._model):
            for start in range(0, len(rows), self._batch_rows):
                some = rows[start : start + self._batch_rows]
                width = max(len(row[0].ids) for row in some) - 1
                batch = collate(some, width, self._pad_id, range(len(some)))
                out += scores_of(self._model, batch.to(self._model.embed.weight.device)).tolist()
        return out
