"""Nats of whole documents, read a window at a time; the arithmetic behind every bits-per-byte figure.

A document of n tokens is read as prefix token + tokens. The first window predicts all its targets; each further one
starts `stride` later and adds only the targets that no window before it reached: every token is scored exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from umsicht.model import Transformer

from .loss import IGNORE, token_nats

TokenNats = Callable[[Tensor, Tensor], Tensor]
"""(inputs [rows, n], targets [rows, n] with IGNORE) -> nats of each target [rows, n] float32, 0 where ignored."""

BATCH_TOKENS = 8_192


@dataclass(frozen=True)
class Window:
    """`ids [inputs + 1]` of one forward pass over document `document`; targets before `first` are context only."""

    document: int
    start: int
    first: int
    ids: NDArray[np.int64]

    @property
    def length(self) -> int:
        """Number of inputs."""
        return int(self.ids.size) - 1


def windows(documents: Sequence[NDArray[Any]], *, prefix: int, window: int, stride: int) -> Iterator[Window]:
    """The windows that cover every target of every document once. Raises `ValueError` unless 1 <= stride <= window."""
    if not 1 <= stride <= window:
        raise ValueError(f"stride must lie in [1, {window}], not {stride}")
    for number, document in enumerate(documents):
        ids = np.concatenate([[prefix], np.asarray(document, dtype=np.int64)]).astype(np.int64)
        targets = int(ids.size) - 1
        start = done = 0
        while done < targets:
            end = min(start + window, targets)
            yield Window(number, start, done, ids[start : end + 1])
            done = end
            start += stride


def document_nats(
    nats_of: TokenNats,
    documents: Sequence[NDArray[Any]],
    *,
    prefix: int,
    window: int,
    stride: int | None = None,
    device: torch.device | str = "cpu",
    batch_tokens: int = BATCH_TOKENS,
) -> list[NDArray[np.float64]]:
    """Nats of every token of every document, `[tokens]` each, in the documents' order; `stride` defaults to `window`.

    Windows of like length share a batch, padded on the right, which a causal model cannot see.
    """
    results = [np.zeros(len(document)) for document in documents]
    cut = windows(documents, prefix=prefix, window=window, stride=stride or window)
    for batch in _batches(sorted(cut, key=lambda item: -item.length), batch_tokens):
        inputs, targets = _tensors(batch, prefix)
        nats = nats_of(inputs.to(device), targets.to(device)).double().cpu().numpy()
        for row, item in enumerate(batch):
            skip = item.first - item.start
            results[item.document][item.first : item.start + item.length] = nats[row, skip : item.length]
    return results


def of_transformer(model: Transformer) -> TokenNats:
    """Our own model, without ever holding all logits. The caller has put it into evaluation mode."""

    @torch.no_grad()
    def nats_of(inputs: Tensor, targets: Tensor) -> Tensor:
        return token_nats(model.hidden(inputs), model.head_weight, targets, softcap=model.config.softcap)

    return nats_of


def of_logits(model: Callable[[Tensor], Tensor]) -> TokenNats:
    """Any model of which one can ask nothing but ids in, logits out."""

    @torch.no_grad()
    def nats_of(inputs: Tensor, targets: Tensor) -> Tensor:
        logits = model(inputs).float()
        flat = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), reduction="none", ignore_index=IGNORE
        )
        return flat.view(targets.shape)

    return nats_of


def _tensors(batch: list[Window], prefix: int) -> tuple[Tensor, Tensor]:
    width = batch[0].length
    inputs = torch.full((len(batch), width), prefix, dtype=torch.int64)
    targets = torch.full((len(batch), width), IGNORE, dtype=torch.int64)
    for row, item in enumerate(batch):
        ids = torch.from_numpy(item.ids)
        skip = item.first - item.start
        inputs[row, : item.length] = ids[:-1]
        targets[row, skip : item.length] = ids[1 + skip :]
    return inputs, targets


def _batches(ordered: list[Window], batch_tokens: int) -> Iterator[list[Window]]:
    batch: list[Window] = []
    for item in ordered:
        if batch and (len(batch) + 1) * batch[0].length > batch_tokens:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch
