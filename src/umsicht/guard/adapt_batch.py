"""One face for every batch: ids, labels, and what else stands beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from umsicht.findings import UserError
from umsicht.tokens.batch import IGNORE
from umsicht.words import t

_IDS = ("input_ids", "inputs", "ids", "idx", "x", "tokens", "input")
_LABELS = ("labels", "targets", "y", "target", "label")
_MASKS = ("attention_mask", "padding_mask", "pad_mask")
_WEIGHTS = ("loss_mask", "weights", "loss_weights", "assistant_masks", "completion_mask")
_POSITIONS = ("position_ids", "positions", "input_pos")
_DOCUMENTS = ("document_ids", "doc_ids", "seq_ids", "segment_ids", "sequence_ids")


@dataclass
class Example:
    """A batch in one shape. `ids` and `labels` `[rows, seq]`; the others too, or None; `raw` is what the user's code takes.

    `labels` are as the batch has them: already shifted or not, `offset` tells (1: `labels[t]` is `ids[t+1]`, 0: labels are the ids).
    """

    ids: torch.Tensor
    labels: torch.Tensor | None
    raw: Any
    attention_mask: torch.Tensor | None = None
    weights: torch.Tensor | None = None
    position_ids: torch.Tensor | None = None
    document_ids: torch.Tensor | None = None

    @property
    def context(self) -> dict[str, torch.Tensor | None]:
        """What goes to the model beside the ids."""
        return {
            "document_ids": self.document_ids,
            "position_ids": self.position_ids,
            "attention_mask": self.attention_mask,
        }

    @property
    def real(self) -> torch.Tensor:
        """True at positions that hold text (attended to), `[rows, seq]`."""
        if self.attention_mask is not None and self.attention_mask.shape == self.ids.shape:
            return self.attention_mask.bool()
        if self.document_ids is not None:
            return self.document_ids >= 0
        return torch.ones_like(self.ids, dtype=torch.bool)

    @property
    def active(self) -> torch.Tensor:
        """Positions whose label is not ignored by the batch's own marks, `[rows, seq]`."""
        marked = self.real if self.labels is None else self.labels >= 0
        weighed = self.weights is not None and self.weights.shape == self.ids.shape
        return marked & (self.weights > 0) if weighed else marked  # type: ignore[operator]  # a tensor where weighed

    def agreement(self, offset: int) -> float:
        """Share of active labels that equal the id `offset` positions on; NaN where nothing can be compared."""
        if self.labels is None:
            return 1.0 if offset == 0 else 0.0
        seq = self.ids.shape[1]
        low, high = max(0, -offset), min(seq, seq - offset)
        if high <= low:
            return float("nan")
        mask = self.active[:, low:high] & self.real[:, low + offset : high + offset]
        same = self.labels[:, low:high] == self.ids[:, low + offset : high + offset]
        return float(same[mask].float().mean()) if bool(mask.any()) else float("nan")

    def with_ids(self, ids: torch.Tensor, labels: torch.Tensor | None = None) -> Example:
        """The same batch with other ids (and labels), in the user's own form."""
        changed = dataclasses.replace(self, ids=ids, labels=self.labels if labels is None else labels)
        changed.raw = _rebuild(self.raw, self, ids, labels)
        return changed

    def take(self, rows: slice | torch.Tensor, raw: Any = None) -> Example:
        """Some of the rows, in the user's own form."""

        made: dict[int, torch.Tensor] = {}

        def part(value: Any) -> Any:
            # One copy for the field and for the raw batch: `with_ids` knows by identity what to exchange there.
            if isinstance(value, torch.Tensor) and value.dim() and value.shape[0] == self.ids.shape[0]:
                return made.setdefault(id(value), value[rows].contiguous())
            return value

        cut = dataclasses.replace(
            self,
            **{f.name: part(getattr(self, f.name)) for f in dataclasses.fields(self) if f.name != "raw"},
        )
        cut.raw = _map(self.raw, part) if raw is None else raw
        return cut


def _map(raw: Any, change: Any) -> Any:
    """Apply `change` to every tensor of a batch, keeping its form."""
    if isinstance(raw, torch.Tensor):
        return change(raw)
    if isinstance(raw, Mapping):
        plain = {key: _map(value, change) for key, value in raw.items()}
        if type(raw) is dict:
            return plain
        copied = _same_kind(raw, plain)
        return plain if copied is None else copied
    if isinstance(raw, tuple) and hasattr(raw, "_fields"):
        return type(raw)(*(_map(value, change) for value in raw))
    if isinstance(raw, tuple | list):
        return type(raw)(_map(value, change) for value in raw)
    if dataclasses.is_dataclass(raw) and not isinstance(raw, type):
        return dataclasses.replace(
            raw, **{f.name: _map(getattr(raw, f.name), change) for f in dataclasses.fields(raw) if f.init}
        )
    return raw


def _same_kind(raw: Mapping[Any, Any], plain: dict[Any, Any]) -> Any:
    try:
        return type(raw)(plain)  # type: ignore[call-arg]  # BatchEncoding and its like take their own dict
    except (TypeError, ValueError):
        return None


def _rebuild(raw: Any, old: Example, ids: torch.Tensor, labels: torch.Tensor | None) -> Any:
    def change(value: torch.Tensor) -> torch.Tensor:
        if value is old.ids or (value.data_ptr() == old.ids.data_ptr() and value.shape == old.ids.shape):
            return ids
        if (
            labels is not None
            and old.labels is not None
            and value.data_ptr() == old.labels.data_ptr()
            and value.shape == old.labels.shape
        ):
            return labels
        return value

    return _map(raw, change)


def _tensor(value: Any) -> torch.Tensor | None:
    if isinstance(value, torch.Tensor):
        return value
    if hasattr(value, "__array__") or (
        isinstance(value, list) and value and isinstance(value[0], list | int)
    ):
        try:
            return torch.as_tensor(value)
        except (TypeError, ValueError):
            return None
    return None


def _first(source: Any, names: tuple[str, ...]) -> torch.Tensor | None:
    for name in names:
        value = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
        found = _tensor(value) if value is not None and not callable(value) else None
        if found is not None:
            return found
    return None


def _shape_error(why: str) -> UserError:
    return UserError(
        t("guard.api.batch.what", why=why), "batches=", t("guard.api.batch.why"), t("guard.api.batch.fix")
    )


def read_batch(raw: Any) -> Example:
    """The batch in one shape. Raises `UserError` naming `batches=` where ids cannot be found in it."""
    if isinstance(raw, torch.Tensor) or hasattr(raw, "__array__"):
        ids = _tensor(raw)
        example = Example(ids, None, raw) if ids is not None else None
    elif isinstance(raw, tuple | list) and not hasattr(raw, "_fields"):
        parts = [_tensor(part) for part in raw]
        if not parts or parts[0] is None:
            raise _shape_error(t("guard.api.batch.first_part"))
        labels = (
            parts[1] if len(parts) > 1 and parts[1] is not None and parts[1].shape == parts[0].shape else None
        )
        third = (
            parts[2] if len(parts) > 2 and parts[2] is not None and parts[2].shape == parts[0].shape else None
        )
        if third is not None and bool(((third == 0) | (third == 1)).all()):
            example = Example(parts[0], labels, raw, weights=third.float())
        else:
            example = Example(parts[0], labels, raw)
    else:
        ids = _first(raw, _IDS)
        if ids is None:
            raise _shape_error(t("guard.api.batch.no_ids_in", kind=type(raw).__name__))
        example = Example(
            ids,
            _first(raw, _LABELS),
            raw,
            attention_mask=_first(raw, _MASKS),
            weights=_first(raw, _WEIGHTS),
            position_ids=_first(raw, _POSITIONS),
            document_ids=_first(raw, _DOCUMENTS),
        )
    if example is None:
        raise _shape_error(t("guard.api.batch.no_ids"))
    return _checked(example)


def _checked(example: Example) -> Example:
    if example.ids.dim() == 1:
        raise _shape_error(t("guard.api.batch.flat", shape=list(example.ids.shape)))
    if example.ids.numel() == 0:
        raise _shape_error(t("guard.api.batch.empty"))
    if example.ids.is_floating_point():
        raise _shape_error(t("guard.api.batch.not_integers", dtype=example.ids.dtype))
    if example.labels is not None and example.labels.shape != example.ids.shape:
        raise _shape_error(
            t("guard.api.batch.shapes", ids=list(example.ids.shape), labels=list(example.labels.shape))
        )
    return example


def take(batches: Any, count: int) -> list[Example]:
    """The first `count` batches. Raises `UserError` where there is none."""
    source = batches
    if isinstance(source, torch.Tensor | Mapping) or (
        isinstance(source, tuple) and source and isinstance(source[0], torch.Tensor)
    ):
        source = [source]
    elif hasattr(source, "micro_batches") and hasattr(source, "batch"):
        source = (batches.batch(step) for step in range(count))
    elif callable(source) and not isinstance(source, Iterable):
        source = source()
        if isinstance(source, torch.Tensor | Mapping) or (
            isinstance(source, tuple) and source and isinstance(source[0], torch.Tensor)
        ):
            first = source
            source = iter([first, *(batches() for _ in range(count - 1))])
    if not isinstance(source, Iterable):
        raise _shape_error(t("guard.api.batch.no_iterable", kind=type(batches).__name__))
    found = [read_batch(raw) for raw in islice(_iterate(source), count)]
    if not found:
        raise UserError(
            t("guard.api.no_batch.what"), "batches=", t("guard.api.no_batch.why"), t("guard.api.no_batch.fix")
        )
    return found


def _iterate(source: Iterable[Any]) -> Iterator[Any]:
    yield from source


def shifted(examples: list[Example]) -> int | None:
    """1 where labels are already the next tokens, 0 where they are the ids themselves, None where neither is true anywhere."""
    scores: dict[int, list[float]] = {0: [], 1: []}
    for example in examples:
        for offset in scores:
            scores[offset].append(example.agreement(offset))
    # A batch without any active label says nothing about the offset.
    told = {offset: [v for v in values if v == v] for offset, values in scores.items()}
    means = {offset: sum(values) / len(values) for offset, values in told.items() if values}
    best = max(means, key=lambda key: means[key], default=None)
    return best if best is not None and means[best] > 0.5 else None


__all__ = ["IGNORE", "Example", "read_batch", "shifted", "take"]
