"""Bits per byte of each slice on fixed documents, with the protocol that the figures hold for."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from umsicht.model import Transformer
from umsicht.record.ids import content_id

from .documents import BATCH_TOKENS, document_nats, of_transformer


class Documents(Protocol):
    """What is asked of a split (see `umsicht.tokens.Split`): documents by number, their slice and raw bytes."""

    @property
    def n_documents(self) -> int: ...
    @property
    def document_bytes(self) -> NDArray[np.int64]: ...
    def document(self, number: int) -> NDArray[Any]: ...
    def slice_of(self, number: int) -> str: ...


@dataclass(frozen=True)
class SliceScore:
    """Sums over one slice. `bytes` are UTF-8 bytes of the raw text; the end token counts as a token, not as bytes."""

    nats: float = 0.0
    tokens: int = 0
    bytes: int = 0
    documents: int = 0

    @property
    def loss(self) -> float:
        """Nats a token."""
        return self.nats / self.tokens if self.tokens else math.nan

    @property
    def bpb(self) -> float:
        """Bits per byte: nats ÷ ln 2 ÷ bytes."""
        return self.nats / math.log(2) / self.bytes if self.bytes else math.nan

    def __add__(self, other: SliceScore) -> SliceScore:
        return SliceScore(
            self.nats + other.nats,
            self.tokens + other.tokens,
            self.bytes + other.bytes,
            self.documents + other.documents,
        )

    def to_dict(self) -> dict[str, float | int]:
        """Sums and both figures."""
        return {**asdict(self), "loss": self.loss, "bpb": self.bpb}


@dataclass(frozen=True)
class ScoreProtocol:
    """Everything besides the model that the figures depend on; figures of unequal protocols are not comparable."""

    data: str
    """Digest of the token ids scored, in their order."""
    prefix: int
    window: int
    stride: int
    dtype: str
    end_token: str = "scored"
    bytes: str = "UTF-8 bytes of the raw text"

    @property
    def digest(self) -> str:
        """One id for the whole protocol."""
        return content_id(asdict(self))


@dataclass(frozen=True)
class SplitScore(Mapping[str, SliceScore]):
    """Slice name → score; `.total` sums over all of them (never a mean of means)."""

    slices: dict[str, SliceScore] = field(default_factory=dict)
    protocol: ScoreProtocol | None = None

    def __getitem__(self, name: str) -> SliceScore:
        return self.slices[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.slices)

    def __len__(self) -> int:
        return len(self.slices)

    @property
    def total(self) -> SliceScore:
        """Sums over all slices."""
        return sum(self.slices.values(), SliceScore())

    @property
    def loss(self) -> float:
        """Nats a token over all slices."""
        return self.total.loss

    @property
    def bpb(self) -> float:
        """Bits per byte over all slices."""
        return self.total.bpb


def score_split(
    model: Transformer,
    split: Documents,
    *,
    seq_len: int,
    prefix: int,
    stride: int | None = None,
    device: torch.device | str = "cpu",
    batch_tokens: int = BATCH_TOKENS,
) -> SplitScore:
    """Score every document of `split` in evaluation mode; the model's mode is put back afterwards.

    `prefix` is the end-of-text id, read before each document; windows of `seq_len` start every `stride` tokens
    (default: `seq_len`). Sums are float64.
    """
    documents = [split.document(number) for number in range(split.n_documents)]
    with evaluating(model):
        nats = document_nats(
            of_transformer(model),
            documents,
            prefix=prefix,
            window=seq_len,
            stride=stride,
            device=device,
            batch_tokens=batch_tokens,
        )
    slices: dict[str, SliceScore] = {}
    for number, values in enumerate(nats):
        score = SliceScore(float(values.sum()), len(values), int(split.document_bytes[number]), 1)
        name = split.slice_of(number)
        slices[name] = slices.get(name, SliceScore()) + score
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    protocol = ScoreProtocol(_digest(documents), prefix, seq_len, stride or seq_len, dtype)
    return SplitScore(slices, protocol)


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; the mode before it afterwards."""
    was_training = model.training
    if was_training:
        model.eval()
    try:
        yield
    finally:
        if was_training:
            model.train()


def _digest(documents: list[NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for document in documents:
        digest.update(np.asarray(document, dtype="<i8").tobytes())
        digest.update(b"|")
    return digest.hexdigest()
