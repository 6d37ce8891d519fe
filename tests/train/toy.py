"""Small real parts for the tests of the training room: a source of batches and a model without our transformer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from umsicht.recipe.train import BudgetSettings, TrainSettings
from umsicht.tokens.batch import IGNORE, Batch, split_rows

VOCAB = 37


class ToySource:
    """Text with structure (each token follows from the two before it, with noise); batch of a step by arithmetic; uneven masks."""

    def __init__(
        self, rows: int = 8, seq: int = 16, n_rows: int = 20, masked: bool = True, seed: int = 0
    ) -> None:
        self.rows, self.seq, self.n_rows, self.masked, self.seed = rows, seq, n_rows, masked, seed
        generator = torch.Generator().manual_seed(seed)
        stream = torch.randint(0, VOCAB, (n_rows * seq + 1,), generator=generator)
        noise = torch.rand(stream.shape, generator=generator)
        for i in range(2, len(stream)):
            if noise[i] < 0.9:
                stream[i] = (3 * stream[i - 1] + stream[i - 2]) % VOCAB
        self._stream = stream
        self._lengths = torch.randint(1, seq + 1, (n_rows,), generator=generator)

    @property
    def tokens_per_batch(self) -> int:
        return self.rows * self.seq

    def _row(self, sample: int) -> tuple[torch.Tensor, torch.Tensor]:
        epoch, position = divmod(sample, self.n_rows)
        order = torch.randperm(self.n_rows, generator=torch.Generator().manual_seed(1000 * self.seed + epoch))
        index = int(order[position])
        x = self._stream[index * self.seq : (index + 1) * self.seq]
        y = self._stream[index * self.seq + 1 : (index + 1) * self.seq + 1].clone()
        if self.masked:
            y[int(self._lengths[index]) :] = IGNORE
        return x, y

    def batch(self, step: int) -> Batch:
        samples = range(step * self.rows, (step + 1) * self.rows)
        pairs = [self._row(s) for s in samples]
        inputs = torch.stack([x for x, _ in pairs])
        return Batch(
            inputs,
            torch.stack([y for _, y in pairs]),
            torch.zeros_like(inputs, dtype=torch.int32),
            torch.tensor(list(samples)),
        )

    def micro_batches(self, step: int, rows: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        whole = self.batch(step)
        first, last = split_rows(self.rows, rank, world)
        for start in range(first, last, rows):
            yield whole.slice(start, min(start + rows, last))

    def epoch(self, step: int) -> float:
        return step * self.rows / self.n_rows

    def state(self) -> dict[str, Any]:
        return {"rows": self.rows, "seq": self.seq, "n_rows": self.n_rows, "seed": self.seed}


class ToyModel(nn.Module):
    """Embedding, a gated mix of the last two positions, dropout, an output head; `head_weight` and `hidden` as ours have them."""

    def __init__(self, width: int = 24, dropout: float = 0.0, seed: int = 0, tied: bool = False) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(VOCAB, width)
        self.mix = nn.Linear(2 * width, width)
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)
        self.drop = nn.Dropout(dropout)
        self.head = None if tied else nn.Linear(width, VOCAB, bias=False)

    @property
    def head_weight(self) -> torch.Tensor:
        return self.embed.weight if self.head is None else self.head.weight

    def hidden(self, ids: torch.Tensor, document_ids: torch.Tensor | None = None) -> torch.Tensor:
        x = self.embed(ids)
        before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
        x = self.norm(x + self.mix(torch.cat([x, before], dim=-1)))
        return x + self.drop(self.down(torch.relu(self.up(x)).square()))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.hidden(ids) @ self.head_weight.T


def settings(steps: int = 12, **changes: Any) -> TrainSettings:
    """Settings of a short run on one thread; `changes` replace whole sections."""
    base: dict[str, Any] = {
        "budget": BudgetSettings(steps=steps),
        "global_batch_tokens": 128,
        "micro_batch": 2,
        "threads": 1,
        "device": "cpu",
        "precision": "float32",
        "compile": "off",
    }
    return TrainSettings.model_validate({**base, **changes})
