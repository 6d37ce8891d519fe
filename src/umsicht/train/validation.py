"""Validation during training: bits per byte of every slice on the same documents each time, summed, in evaluation mode."""

from __future__ import annotations

import math
from typing import cast

import torch

from umsicht.model import Transformer
from umsicht.recipe.train import ValidationSettings
from umsicht.score.split import SliceScore, SplitScore, score_split
from umsicht.tokens.data import Split, TokenData
from umsicht.train.hooks import EVERY_STEP, Hook, View
from umsicht.train.ranks import Ranks


def due_steps(settings: ValidationSettings, total_steps: int) -> int:
    """Steps between validations."""
    return settings.every_steps or max(1, math.ceil(total_steps / settings.count))


def is_due(step: int, total_steps: int, every: int) -> bool:
    """At multiples of `every`, and always after the last step."""
    return step % every == 0 or step == total_steps


class Validation(Hook):
    """Logs `val/<slice>/loss` and `/bpb`, `val/all/…` (sums, not a mean of means), and `train_eval/…` on training text.

    The documents are a fixed sample, so that two figures of one run differ by the model alone and the time of a validation is bounded.
    Several ranks share the documents; sums are added in rank order.
    """

    name = "validation"
    every = EVERY_STEP

    def __init__(self, data: TokenData, settings: ValidationSettings, *, seq_len: int) -> None:
        self._settings = settings
        self._seq_len = seq_len
        self._prefix = data.eos_id
        self._sample = data.val.sample(settings.slice_bytes)
        self._train = _training_sample(data, settings)

    def at_start(self, view: View) -> None:
        """Where the run starts from: about ln(vocabulary) nats a token."""
        self._log(view)

    def after_step(self, view: View) -> None:
        if is_due(view.step, view.total_steps, due_steps(self._settings, view.total_steps)):
            self._log(view)

    def _log(self, view: View) -> None:
        view.log(figures(self._score(view, self._sample), "val"))
        if self._train is not None:
            total = self._score(view, self._train).total
            view.log({"train_eval/loss": total.loss, "train_eval/bpb": total.bpb})

    def _score(self, view: View, split: Split) -> SplitScore:
        ranks = view.ranks
        mine = split if ranks.world == 1 else split.select(range(ranks.rank, split.n_documents, ranks.world))
        scores = score_split(
            cast(Transformer, view.model),
            mine,
            seq_len=self._seq_len,
            prefix=self._prefix,
            device=view.device,
        )
        return scores if ranks.world == 1 else shared(scores, split.slices, ranks)


def shared(scores: SplitScore, names: list[str], ranks: Ranks) -> SplitScore:
    """Sums of all ranks' parts of a split, the same on each of them; slices in the order of `names`."""
    rows = [scores.slices.get(name, SliceScore()) for name in names]
    sums = ranks.sum(
        torch.tensor([[s.nats, s.tokens, s.bytes, s.documents] for s in rows], dtype=torch.float64)
    ).tolist()
    slices = {
        name: SliceScore(nats, int(tokens), int(size), int(documents))
        for name, (nats, tokens, size, documents) in zip(names, sums, strict=True)
        if documents
    }
    return SplitScore(slices, scores.protocol)


def figures(scores: SplitScore, prefix: str) -> dict[str, float]:
    """Metric names of the record: one loss and one bpb a slice, and over all."""
    row: dict[str, float] = {}
    for name, score in scores.items():
        row[f"{prefix}/{name}/loss"] = score.loss
        row[f"{prefix}/{name}/bpb"] = score.bpb
    row[f"{prefix}/all/loss"] = scores.loss
    row[f"{prefix}/all/bpb"] = scores.bpb
    return row


def _training_sample(data: TokenData, settings: ValidationSettings) -> Split | None:
    if not settings.train_bytes or not data.train.n_documents:
        return None
    slices = max(1, len(data.slices))
    return data.train.sample(max(1, settings.train_bytes // slices))
