"""Scores whole documents with a model that sees a window at a time, and says how: the protocol.

A document of n tokens is read as prefix token + tokens. The first window predicts all of its targets; each further one
starts `stride` later and adds only the targets that no window before it reached, so every token is scored once, with at
least window - stride tokens of context behind the first window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from umsicht.findings import UserError
from umsicht.record.ids import content_id
from umsicht.score import IGNORE, token_nats
from umsicht.words import t

TokenNats = Callable[[Tensor, Tensor], Tensor]
"""(inputs [rows, n], targets [rows, n] with IGNORE) -> nats of each target [rows, n] float32, 0 where ignored."""

_BATCH_TOKENS = 8_192


@dataclass(frozen=True)
class Protocol:
    """Everything that a score depends on besides the model: scores of unequal protocols are not comparable."""

    heldout: str
    """Digest of the scored excerpts."""
    prefix_token: int
    """Id of the token before each document (its own text never holds it)."""
    window: int
    stride: int
    dtype: str = "float32"
    end_of_text: str = "scored where the excerpt is a whole document"
    bytes: str = "UTF-8 bytes of the raw text"

    @property
    def digest(self) -> str:
        return content_id(asdict(self))

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "digest": self.digest}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Protocol:
        return cls(**{name: plain[name] for name in cls.__dataclass_fields__ if name in plain})

    def require_equal(self, other: Protocol, *, across_tokenizers: bool = True) -> None:
        """Raises UserError naming the first difference that forbids a comparison.

        Bits per byte may be compared between tokenizers, whose prefix tokens have different ids; pass
        `across_tokenizers=False` to refuse that too.
        """
        mine, theirs = asdict(self), asdict(other)
        if across_tokenizers:
            mine.pop("prefix_token"), theirs.pop("prefix_token")
        for name, value in mine.items():
            if value != theirs[name]:
                raise UserError(
                    t("evaluate.protocols_differ", name=name),
                    where=f"{value} | {theirs[name]}",
                    why=t("evaluate.protocols_differ.why"),
                    fix=t("evaluate.protocols_differ.fix"),
                )


@dataclass(frozen=True)
class _Window:
    document: int
    start: int  # first target's place in the document
    first: int  # first target that this window scores, counted in the document
    ids: npt.NDArray[np.int64]  # inputs and the last target: [inputs + 1]


def _windows(documents: Sequence[npt.ArrayLike], prefix: int, window: int, stride: int) -> Iterator[_Window]:
    for number, document in enumerate(documents):
        ids = np.concatenate([[prefix], np.asarray(document, dtype=np.int64)])
        targets = ids.size - 1
        start, done = 0, 0
        while done < targets:
            end = min(start + window, targets)
            yield _Window(number, start, done, ids[start : end + 1])
            done = end
            start += stride


def score_documents(
    nats_of: TokenNats,
    documents: Sequence[npt.ArrayLike],
    *,
    prefix: int,
    window: int,
    stride: int,
    device: torch.device | str = "cpu",
) -> list[npt.NDArray[np.float64]]:
    """Nats of every token of every document, `[tokens]` each, in the documents' order.

    Raises ValueError unless 1 <= stride <= window.
    """
    if not 1 <= stride <= window:
        raise ValueError(f"stride must lie in [1, {window}], not {stride}")
    results = [np.full(np.asarray(d).size, np.nan) for d in documents]
    ordered = sorted(_windows(documents, prefix, window, stride), key=lambda w: -w.ids.size)
    for batch in _batches(ordered):
        width = batch[0].ids.size - 1
        inputs = torch.full((len(batch), width), prefix, dtype=torch.int64)
        targets = torch.full((len(batch), width), IGNORE, dtype=torch.int64)
        for row, w in enumerate(batch):
            length = w.ids.size - 1
            ids = torch.from_numpy(w.ids)
            inputs[row, :length] = ids[:-1]
            skip = w.first - w.start
            targets[row, skip:length] = ids[1 + skip :]
        nats = nats_of(inputs.to(device), targets.to(device)).cpu().numpy()
        for row, w in enumerate(batch):
            skip, length = w.first - w.start, w.ids.size - 1
            results[w.document][w.first : w.first + length - skip] = nats[row, skip:length]
    return results


def _batches(ordered: list[_Window]) -> Iterator[list[_Window]]:
    batch: list[_Window] = []
    for w in ordered:
        if batch and (len(batch) + 1) * (batch[0].ids.size - 1) > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(w)
    if batch:
        yield batch


def of_transformer(model: nn.Module) -> TokenNats:
    """Our own model, without ever holding all logits; the caller has put it into eval mode."""

    def nats_of(inputs: Tensor, targets: Tensor) -> Tensor:
        with torch.no_grad():
            hidden = model.hidden(inputs)  # type: ignore[operator]  # nn.Module attributes are untyped
            return token_nats(hidden, model.head_weight, targets, softcap=model.config.softcap)  # type: ignore[arg-type, union-attr]  # same

    return nats_of


def of_logits(model: Callable[[Tensor], Tensor]) -> TokenNats:
    """Any model of which one can ask nothing but ids in, logits out."""

    def nats_of(inputs: Tensor, targets: Tensor) -> Tensor:
        with torch.no_grad():
            logits = model(inputs)
        flat = torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), targets.flatten(), reduction="none", ignore_index=IGNORE
        )
        return flat.view(targets.shape)

    return nats_of
