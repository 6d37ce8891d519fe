"""Faults of data set, split and order (DA)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bench.faults import base
from bench.faults.case import Plant, case
from bench.faults.plant import on_batches, on_ids, on_rows, rewrite, some
from umsicht.recipe import Recipe


def _add(p: Any, texts: list[Any]) -> None:
    p.train[:] = [*p.train, *texts]


case(
    "DA1",
    "EVAL-VALIDITY",
    "validation",
    {"text": lambda p: _add(p, p.val)},
    {"text": lambda p: _add(p, p.val[:1])},
)


def _halves(count: int) -> Plant:
    def plant(p: Any) -> None:
        long = [one for one in p.train if len(one.text) > 500][:count]
        p.val[:] = [
            *p.val,
            *(replace(one, text=one.text[100:] + f" End {index}.") for index, one in enumerate(long)),
        ]

    return plant


case("DA2", "EVAL-VALIDITY", "validation", {"text": _halves(30)}, {"text": _halves(3)})


def _benchmark(count: int) -> Plant:
    def plant(p: Any) -> None:
        items = [
            f"Question {n}: how many apples are left when {n + 7} of {3 * n + 20} are eaten by {n % 5 + 2} children who share them evenly? Answer with a number and explain each of your steps."
            for n in range(40)
        ]
        p.benchmarks = {"apples": items}
        p.train[:count] = [
            replace(one, text=one.text + "\n" + item)
            for one, item in zip(p.train[:count], items, strict=False)
        ]

    return plant


case("DA3", "EVAL-VALIDITY", "validation", {"text": _benchmark(20)}, {"text": _benchmark(1)})
case(
    "DA4",
    "CORPUS",
    "documents",
    {"text": lambda p: _add(p, [p.train[5]] * 60)},
    {"text": lambda p: _add(p, [p.train[5]] * 12)},
)
_HEADER = (
    "Home | About | Contact | Accept all cookies to continue reading this page on our site | Subscribe now\n"
)


def _header(share: float, slice_name: str = "") -> Plant:
    def plant(p: Any) -> None:
        p.train[:] = [
            replace(one, text=_HEADER + one.text)
            if some(share)(one) and (not slice_name or one.slice == slice_name)
            else one
            for one in p.train
        ]

    return plant


case(
    "DA5",
    "CORPUS EVAL-VALIDITY",
    "raw text|validation",
    {"text": _header(0.8)},
    {"text": _header(0.3, "prose.de")},
)
_MIX = {"stdlib": 0.7, "docs": 0.2, "erzeugt": 0.1}


def _mixed() -> Recipe:
    return base.mixed(base.recipe(), **_MIX)


def _weights(expression: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.tokens import PackedSource

        rewrite(PackedSource, "_normal", "shares.get(group.name, 0.0)", expression)

    return plant


case(
    "DA6",
    "DATA-ORDER",
    "data order",
    {"code": _weights("shares.get(group.name, 0.0) * len(group.documents)")},
    {"code": _weights("(shares.get(group.name, 0.0) * (1.6 if group.name == 'erzeugt' else 1.0))")},
    recipe=_mixed,
)
case(
    "DA7",
    "DATA-ORDER",
    "data order",
    {"code": _weights("1.0")},
    {"code": _weights("(0.5 * shares.get(group.name, 0.0) + 0.5 / 3)")},
    recipe=_mixed,
)


def _identity(p: Any) -> None:
    import umsicht.tokens.packed as module

    class Straight:
        def __init__(self, n: int, key: int) -> None:
            self.n = n

        def __call__(self, index: Any) -> Any:
            return index

        def all(self) -> Any:
            return np.arange(self.n)

    module.Permutation = Straight


def _by_source(p: Any) -> None:
    real = p.make_source

    def make(steps: int | None) -> Any:
        source = real(steps)
        layout = source._layout

        def sorted_layout(group: int, epoch: int) -> Any:
            return layout(group, epoch)

        source._layout = sorted_layout
        source._permutation = lambda group, epoch: lambda index: index
        return source

    p.make_source = make


case("DA8", "DATA-ORDER", "data order", {"code": _identity}, {"run": _by_source})


def _steps(change: Callable[[Any, int], int]) -> Plant:
    """Another step's batch instead of this one's."""

    def plant(p: Any) -> None:
        real = p.make_source

        def make(steps: int | None) -> Any:
            source = real(steps)
            batch, micro = source.batch, source.micro_batches
            source.batch = lambda step: batch(change(source, step))
            source.micro_batches = lambda step, rows, rank=0, world=1: micro(
                change(source, step), rows, rank, world
            )
            return source

        p.make_source = make

    return plant


def _edge(source: Any) -> int:
    return int(source.steps_per_epoch)


case(
    "DA9",
    "DATA-ORDER",
    "data order|rows",
    {"run": _steps(lambda s, step: step // 2 if step > 0.8 * _edge(s) and step < _edge(s) else step)},
    {"run": _steps(lambda s, step: 0 if step == _edge(s) - 1 else step)},
)
case(
    "DA10",
    "TARGET-SHIFT",
    "rows",
    {"run": lambda p: on_batches(p, on_rows(1.0, lambda targets, b: targets.roll(1, 0)))},
    {"run": lambda p: on_batches(p, on_rows(0.03, lambda targets, b: targets.roll(1, 0)))},
)
case(
    "DA12",
    "DATA-ORDER",
    "data order|rows",
    {"run": _steps(lambda s, step: step % max(1, _edge(s)))},
    {"run": _steps(lambda s, step: step - round(s.steps_per_epoch) if step >= s.steps_per_epoch else step)},
)


def _no_rank(p: Any) -> None:
    from umsicht.tokens import PackedSource

    rewrite(
        PackedSource,
        "micro_batches",
        "split_rows(total, rank, world)",
        "split_rows(total, 0, world)",
    )


def _rank_off(p: Any) -> None:
    from umsicht.tokens import PackedSource

    rewrite(
        PackedSource,
        "micro_batches",
        "part = slice(first, min(first + rows, stop))",
        "part = slice(first, min(first + rows, stop)) if world == 1 or first else slice(first + 1, min(first + rows, stop) + 1)",
    )


case("DA13", "DATA-ORDER", "data order", {"code": _no_rank}, {"code": _rank_off})
case(
    "DA14",
    "DATA-ORDER",
    "data order|rows",
    {"run": _steps(lambda s, step: step // 4)},
    {"run": _steps(lambda s, step: step - 1 if step % 30 == 29 else step)},
)


def _offset(share: float) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.tokens.data import Split

        rewrite(
            Split,
            "document",
            "start = int(self.starts[number])",
            f"start = int(self.starts[number]) + (1 if number and number % 1000 < {int(1000 * share)} and number + 1 < self.n_documents else 0)",
        )

    return plant


case(
    "DA15",
    "DATA-ORDER TEXT-LOSS BOUNDARY-TOKEN ID-RANGE",
    "rows|token storage|data order",
    {"code": _offset(1.0)},
    {"code": _offset(0.03)},
)
case(
    "DA17",
    "TEXT-LOSS",
    "token storage",
    {"code": lambda p: on_ids(lambda ids, t: np.append(ids[:31], t.eos_id))},
    {
        "code": lambda p: on_ids(
            lambda ids, t: np.append(ids[:31], t.eos_id) if len(ids) > 33 else ids, some(0.03)
        )
    },
)
