"""An interpolated n-gram model over token ids: the small model every trained model has to beat.

Modified Kneser-Ney smoothing, interpolated, after Chen and Goodman, "An Empirical Study of Smoothing Techniques for
Language Modeling" (1999), equations for D1, D2, D3+ and gamma; the lowest order is interpolated with the uniform
distribution, so that no token has probability zero. Contexts stop at the start of a document: the end-of-text token
of the document before stands there once, as it does for a transformer that is prefixed with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Order:
    """The n-grams of one order: `keys` = prefix number * vocabulary + last token, sorted; one row a distinct n-gram."""

    keys: Ids
    adjusted: Ids  # [grams] counts at the highest order, continuation counts below it
    discounts: tuple[float, float, float]
    context_total: Floats  # [grams of the order below] sum of adjusted counts after that context
    context_mass: (
        Floats  # [grams of the order below] probability mass left to the lower order, times context_total
    )


def stream(documents: Iterable[npt.ArrayLike], eos_id: int) -> Ids:
    """Joins documents into one array with an end-of-text token before, between and after them.

    A document that already ends with `eos_id` is taken as it is; the others get one.
    """
    parts: list[Ids] = [np.array([eos_id], dtype=np.int64)]
    for document in documents:
        ids = np.asarray(document, dtype=np.int64)
        if ids.size == 0:
            continue
        parts.append(ids)
        if ids[-1] != eos_id:
            parts.append(np.array([eos_id], dtype=np.int64))
    return np.concatenate(parts)


def _usable(tokens: Ids, eos_id: int, order: int) -> npt.NDArray[np.bool_]:
    """[positions] Whether the n-gram that starts here lies inside one document (its first token may be the eos before)."""
    n = tokens.size
    index = np.where(tokens == eos_id, np.arange(n), n + order)
    following = np.minimum.accumulate(index[::-1])[::-1]  # next eos at or after
    later = np.append(following[1:], n + order)  # next eos strictly after
    usable = later - np.arange(n) >= order - 1
    usable[max(0, n - order + 1) :] = False
    return np.asarray(usable)


def _discounts(adjusted: Ids) -> tuple[float, float, float]:
    """D1, D2, D3+ from the counts of counts; where they are degenerate (tiny texts), absolute discounts that keep order."""
    t1, t2, t3, t4 = (int(np.count_nonzero(adjusted == k)) for k in (1, 2, 3, 4))
    if min(t1, t2, t3, t4) == 0:
        return 0.5, 0.75, 0.9
    y = t1 / (t1 + 2 * t2)
    raw = (1 - 2 * y * t2 / t1, 2 - 3 * y * t3 / t2, 3 - 4 * y * t4 / t3)
    low, middle, high = (min(max(d, 0.05), k - 0.05) for d, k in zip(raw, (1, 2, 3), strict=True))
    return low, middle, high


def _discount_of(adjusted: Ids, discounts: tuple[float, float, float]) -> Floats:
    table = np.array([0.0, *discounts])
    return np.asarray(table[np.minimum(adjusted, 3)])


class NgramModel:
    """`fit` on one long stream of token ids, then `log2_probabilities` of other documents.

    `vocab_size` counts every id that can occur; `order` is the longest n-gram (5 = four tokens of context).
    """

    def __init__(self, tokens: Ids, *, vocab_size: int, eos_id: int, order: int = 5) -> None:
        if order < 1:
            raise ValueError(f"order must be at least 1, not {order}")
        if tokens.size == 0 or tokens.min() < 0 or tokens.max() >= vocab_size:
            raise ValueError(f"token ids must lie in [0, {vocab_size})")
        self.vocab_size = vocab_size
        self.eos_id = eos_id
        self.order = order
        self.training_tokens = int(tokens.size)
        self._orders = self._count(tokens)

    @classmethod
    def fit(
        cls, documents: Iterable[npt.ArrayLike], *, vocab_size: int, eos_id: int, order: int = 5
    ) -> NgramModel:
        return cls(stream(documents, eos_id), vocab_size=vocab_size, eos_id=eos_id, order=order)

    def _count(self, tokens: Ids) -> list[_Order]:
        tables: list[tuple[Ids, Ids, Ids]] = []  # keys, raw counts, position of one occurrence
        numbers: list[Ids] = []  # per order: which distinct n-gram starts at a position (-1 = none)
        prefix = np.zeros(tokens.size, dtype=np.int64)  # order 1 has one empty context, numbered 0
        for n in range(1, self.order + 1):
            usable = _usable(tokens, self.eos_id, n)
            if n == 1:
                usable[0] = False  # the eos before the first document is context, never predicted
            start = np.flatnonzero(usable)
            keys = prefix[start] * self.vocab_size + tokens[start + n - 1]
            distinct, first, number, counts = _distinct(keys)
            at = np.full(tokens.size, -1, dtype=np.int64)
            at[start] = number
            if n == 1:
                # the leading eos is a context of the longer n-grams, so it needs its number
                found = np.searchsorted(distinct, tokens[0])
                at[0] = found if found < distinct.size and distinct[found] == tokens[0] else -1
            tables.append((distinct, counts, start[first]))
            numbers.append(at)
            prefix = at
        return [self._finish(n, tokens, tables, numbers) for n in range(1, self.order + 1)]

    def _finish(self, n: int, tokens: Ids, tables: list[tuple[Ids, Ids, Ids]], numbers: list[Ids]) -> _Order:
        keys, counts, where = tables[n - 1]
        adjusted = counts
        if n < self.order:
            # one distinct (n+1)-gram = one distinct token to the left of its last n tokens
            longer_where = tables[n][2]
            adjusted = np.bincount(numbers[n - 1][longer_where + 1], minlength=keys.size).astype(np.int64)
            if n > 1:  # nothing stands before the start of a document: raw counts there
                opening = tokens[where] == self.eos_id
                adjusted = np.where(opening, counts, adjusted)
        discounts = _discounts(adjusted)
        contexts = 1 if n == 1 else tables[n - 2][0].size
        owner = keys // self.vocab_size
        total = np.bincount(owner, weights=adjusted, minlength=contexts)
        mass = np.bincount(owner, weights=_discount_of(adjusted, discounts), minlength=contexts)
        return _Order(
            keys, adjusted, discounts, np.asarray(total, dtype=np.float64), np.asarray(mass, dtype=np.float64)
        )

    def probabilities(self, history: Sequence[int]) -> Floats:
        """[vocab_size] Distribution of the next token after `history` (which may start with eos). For tests and looks."""
        words = np.arange(self.vocab_size, dtype=np.int64)
        result = np.full(self.vocab_size, 1.0 / self.vocab_size)
        context: int | None = 0
        for n in range(1, self.order + 1):
            if n > 1:
                if len(history) < n - 1:
                    break
                context = self._number(list(history[-(n - 1) :]))
            if context is None:
                break
            contexts = np.full(words.size, context)
            found, number = _lookup(self._orders[n - 1].keys, contexts * self.vocab_size + words)
            result = self._interpolate(n, contexts, found, number, result)
        return result

    def _number(self, gram: list[int]) -> int | None:
        context = 0
        for table, token in zip(self._orders, gram, strict=False):
            key = context * self.vocab_size + token
            at = int(np.searchsorted(table.keys, key))
            if at >= table.keys.size or table.keys[at] != key:
                return None
            context = at
        return context

    def _interpolate(
        self, n: int, contexts: Ids, found: npt.NDArray[np.bool_], number: Ids, lower: Floats
    ) -> Floats:
        """Order n over `lower`; contexts of -1 and contexts never continued in training keep the lower order."""
        table = self._orders[n - 1]
        if table.keys.size == 0:
            return lower
        adjusted = np.where(found, table.adjusted[number], 0)
        known = np.maximum(contexts, 0)
        total = table.context_total[known]
        use = (contexts >= 0) & (total > 0)
        safe = np.where(use, total, 1.0)
        higher = (adjusted - _discount_of(adjusted, table.discounts)) / safe
        return np.asarray(np.where(use, higher + table.context_mass[known] / safe * lower, lower))

    def log2_probabilities(self, document: npt.ArrayLike) -> Floats:
        """[tokens] log2 of the probability of each token of one document, its closing eos included if it is there."""
        ids = np.asarray(document, dtype=np.int64)
        if ids.size and (ids.min() < 0 or ids.max() >= self.vocab_size):
            raise ValueError(f"token ids must lie in [0, {self.vocab_size})")
        return self.score([ids])[0]

    def score(self, documents: Sequence[npt.ArrayLike]) -> list[Floats]:
        """The same for many documents at once (one pass of array operations for all of them)."""
        arrays = [np.asarray(d, dtype=np.int64) for d in documents]
        lengths = [a.size for a in arrays]
        # each document behind its own eos: positions count from the start of a document
        padded = (
            np.concatenate([np.append(self.eos_id, a) for a in arrays])
            if arrays
            else np.zeros(0, dtype=np.int64)
        )
        offset = (
            np.concatenate([np.arange(n + 1) for n in lengths]) if arrays else np.zeros(0, dtype=np.int64)
        )
        result = np.full(padded.size, 1.0 / self.vocab_size)
        contexts = np.zeros(
            padded.size, dtype=np.int64
        )  # number of the (n-1)-gram before each position, -1 = none
        for n, table in enumerate(self._orders, 1):
            contexts = np.where(offset >= n - 1, contexts, -1)
            found, number = _lookup(table.keys, np.maximum(contexts, 0) * self.vocab_size + padded)
            result = self._interpolate(n, contexts, found, number, result)
            # the n-gram that ends here is the context of the next position at the next order
            ends_here = np.where(found & (contexts >= 0), number, -1)
            contexts = np.append(-1, ends_here[:-1])
        logs = np.log2(result)
        pieces, at = [], 0
        for length in lengths:
            pieces.append(logs[at + 1 : at + 1 + length])
            at += length + 1
        return pieces


def _distinct(keys: Ids) -> tuple[Ids, Ids, Ids, Ids]:
    """(distinct keys sorted, position of one occurrence of each, number of every position's key, counts)."""
    order = _argsort(keys)
    ranked = keys[order]
    opens = np.ones(keys.size, dtype=bool)
    opens[1:] = ranked[1:] != ranked[:-1]
    number = np.empty(keys.size, dtype=np.int64)
    number[order] = np.cumsum(opens) - 1
    at = np.flatnonzero(opens)
    return ranked[at], order[at], number, np.diff(np.append(at, keys.size))


def _argsort(keys: Ids) -> Ids:
    """Sorting one array of (key, position) packed into 63 bits is several times as fast as np.argsort."""
    position_bits = max(1, int(keys.size).bit_length())
    if keys.size and int(keys.max()).bit_length() + position_bits <= 63:
        packed = np.sort((keys << position_bits) | np.arange(keys.size))
        return np.asarray(packed & ((1 << position_bits) - 1))
    return np.argsort(keys)


def _lookup(keys: Ids, wanted: Ids) -> tuple[npt.NDArray[np.bool_], Ids]:
    if keys.size == 0:
        return np.zeros(wanted.size, dtype=bool), np.zeros(wanted.size, dtype=np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return np.asarray(keys[at] == wanted), np.asarray(at)
