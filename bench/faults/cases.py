"""The faults of the catalogue as injectors: (id, strength, families and places that name it rightly, base pipeline, what is planted when)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from bench.faults import base
from bench.faults.plant import (
    on_batches,
    on_ids,
    on_model,
    on_rows,
    on_texts,
    rewrite,
    shards,
    some,
)
from umsicht.recipe import Recipe
from umsicht.tokens.batch import IGNORE

Plant = Callable[[Any], None]


@dataclass(frozen=True)
class Case:
    """`families` and `places` (the part of the location before the colon) that count as right; `moment` is the latest acceptable."""

    fault: str
    strength: str
    families: tuple[str, ...]
    places: tuple[str, ...]
    recipe: Callable[[], Recipe] = base.recipe
    code: Plant | None = None
    text: Plant | None = None
    stored: Plant | None = None
    run: Plant | None = None
    moment: str = "P"

    @property
    def name(self) -> str:
        """`TX1-loud`."""
        return f"{self.fault}-{self.strength}"


CASES: list[Case] = []


def case(
    fault: str, families: str, places: str, loud: dict[str, Any], faint: dict[str, Any], **common: Any
) -> None:
    """Both strengths of a fault."""
    for strength, plants in (("loud", loud), ("faint", faint)):
        CASES.append(
            Case(fault, strength, tuple(families.split()), tuple(places.split("|")), **{**common, **plants})
        )


def _spaces(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text)


def _nfkc(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


# Text and tokens ----------------------------------------------------------------------------------------------------------------
case(
    "TX1",
    "TEXT-LOSS",
    "token storage|tokenizer|raw text",
    {"code": lambda p: on_texts(p, str.lower)},
    {"code": lambda p: on_texts(p, str.lower, some(0.03))},
)
case(
    "TX2",
    "TEXT-LOSS",
    "token storage|tokenizer|raw text",
    {"code": lambda p: on_texts(p, _spaces)},
    {"code": lambda p: on_texts(p, _spaces, lambda one: one.source == "stdlib" and some(0.1)(one))},
)


def _odd(p: Any) -> None:
    p.train[:] = [replace(one, text=one.text + " x² ﬁ ½") if some(0.2)(one) else one for one in p.train]


def _odd_few(p: Any) -> None:
    p.train[3] = replace(p.train[3], text=p.train[3].text + " ﬁ")


case(
    "TX3",
    "TEXT-LOSS",
    "token storage|tokenizer",
    {"text": _odd, "code": lambda p: on_texts(p, _nfkc)},
    {"text": _odd_few, "code": lambda p: on_texts(p, _nfkc)},
)


def _clean_up(p: Any) -> None:
    rewrite(
        type(p.tokenizer),
        "decode",
        'errors="replace")',
        'errors="replace").replace(" .", ".").replace(" ,", ",")',
    )


def _clean_up_rare(p: Any) -> None:
    rewrite(
        type(p.tokenizer),
        "decode",
        'errors="replace")',
        'errors="replace").replace(" n\'t", "n\'t").replace("\\u202f", " ")',
    )


case("TX5", "TEXT-LOSS", "tokenizer", {"stored": _clean_up}, {"stored": _clean_up_rare})
case(
    "TX6",
    "ID-RANGE",
    "token storage",
    {"stored": lambda p: shards(p, "train", lambda a: (a & 0xFF).astype(a.dtype))},
    {
        "stored": lambda p: shards(
            p,
            "train",
            lambda a: np.where(
                (np.arange(len(a)) < len(a) // 30) & (a != p.tokenizer.eos_id), a & 0xFF, a
            ).astype(a.dtype),
        )
    },
)


def _narrow(p: Any) -> None:
    import umsicht.tokens.shards as module

    module.checked = lambda ids, n: (ids % 300).astype(np.uint16)
    rewrite(module.ShardWriter, "add", "checked(ids, self.n_tokens)", "(ids % 300).astype(np.uint16)")


def _narrow_faint(p: Any) -> None:
    import umsicht.tokens.shards as module

    rewrite(
        module.ShardWriter,
        "add",
        "checked(ids, self.n_tokens)",
        "np.where((ids > 480) & (ids < 512 - 8), ids - 256, ids).astype(np.uint16)",
    )


case("TX7", "ID-RANGE", "token storage", {"code": _narrow}, {"code": _narrow_faint})


def _width(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    out = a.copy()
    out[1::2] = 0
    return out


case(
    "TX8",
    "ID-RANGE",
    "token storage|rows",
    {"stored": lambda p: shards(p, "train", _width)},
    {"stored": lambda p: shards(p, "val", _width)},
)
case(
    "TX9",
    "ID-RANGE",
    "token storage|rows",
    {"stored": lambda p: shards(p, "train", lambda a: np.where(a > 400, 65535 - a, a).astype(a.dtype))},
    {"stored": lambda p: shards(p, "val", lambda a: np.where(a > 505, 65535 - a, a).astype(a.dtype))},
)


def _rows_fewer(n: int) -> Plant:
    def plant(p: Any) -> None:
        real = p.make_model

        def make() -> Any:
            model = real()
            keep = p.tokenizer.n_tokens - n
            model.embed = torch.nn.Embedding.from_pretrained(model.embed.weight[:keep].clone(), freeze=False)
            return model

        p.make_model = make

    return plant


case("TX10", "ID-RANGE", "model|token storage|rows", {"run": _rows_fewer(100)}, {"run": _rows_fewer(1)})
case(
    "TX11",
    "NUMERIC",
    "initialisation|model",
    {"run": lambda p: on_model(p, lambda m: m.embed.weight[480:].normal_(0, 50))},
    {"run": lambda p: on_model(p, lambda m: m.embed.weight[500:503].zero_())},
)
case(
    "TX12",
    "BOUNDARY-TOKEN",
    "token storage",
    {"code": lambda p: on_ids(lambda ids, t: ids[:-1])},
    {"code": lambda p: on_ids(lambda ids, t: ids[:-1], some(0.03))},
)
case(
    "TX15",
    "BOUNDARY-TOKEN",
    "token storage",
    {"code": lambda p: on_ids(lambda ids, t: np.append(ids, ids[-1]))},
    {"code": lambda p: on_ids(lambda ids, t: np.append(ids, ids[-1]), some(0.03))},
)
case(
    "TX14",
    "BOUNDARY-TOKEN TEXT-LOSS",
    "token storage",
    {"code": lambda p: on_ids(lambda ids, t: np.insert(ids, 0, t.special["<|im_start|>"]))},
    {"code": lambda p: on_ids(lambda ids, t: np.insert(ids, 0, t.special["<|im_start|>"]), some(0.02))},
)


def _drift(only_val: bool) -> Plant:
    def plant(p: Any) -> None:
        for split in ("val",) if only_val else ("train", "val"):
            for path in p.tokens.joinpath(split).glob("*.documents.npy"):
                offsets = np.load(path)
                offsets[1:-1] -= np.minimum(np.arange(1, len(offsets) - 1), 3 if only_val else 40)
                np.save(path, offsets)

    return plant


case(
    "TX16",
    "ID-RANGE BOUNDARY-TOKEN TEXT-LOSS",
    "token storage",
    {"stored": _drift(False)},
    {"stored": _drift(True)},
)


# Data set, split, order ---------------------------------------------------------------------------------------------------------
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
        "split_rows(self.rows_per_batch, rank, world)",
        "split_rows(self.rows_per_batch, 0, world)",
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


# Targets and loss ---------------------------------------------------------------------------------------------------------------
def _objective(expression: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.train.objective import LanguageModelling

        rewrite(LanguageModelling, "__call__", "            batch.targets,\n", f"            {expression},\n")

    return plant


_TWICE = "torch.cat([batch.targets[:, 1:], batch.targets[:, -1:] * 0 - 100], dim=1)"


def _torch(p: Any) -> None:
    import umsicht.train.objective as module

    module.torch = torch


def _both(*plants: Plant) -> Plant:
    def plant(p: Any) -> None:
        for one in plants:
            one(p)

    return plant


case(
    "TG1",
    "TARGET-SHIFT",
    "loss|rows",
    {"code": _both(_torch, _objective(_TWICE))},
    {"code": _both(_torch, _objective(f"torch.cat([{_TWICE}[:1], batch.targets[1:]])"))},
)
case(
    "TG2",
    "TARGET-SHIFT",
    "loss|rows",
    {"code": _objective("batch.inputs")},
    {"run": lambda p: on_batches(p, on_rows(0.03, lambda targets, b: b.inputs.clone()))},
)
case(
    "TG3",
    "TARGET-SHIFT",
    "loss|rows",
    {
        "run": lambda p: on_batches(
            p, lambda b, s: replace(b, inputs=torch.cat([b.inputs[:, :1] * 0 + 511, b.inputs[:, :-1]], 1))
        )
    },
    {
        "run": lambda p: on_batches(
            p,
            lambda b, s: replace(
                b,
                inputs=torch.cat(
                    [torch.cat([b.inputs[:1, :1] * 0 + 511, b.inputs[:1, :-1]], 1), b.inputs[1:]]
                ),
            ),
        )
    },
)
case(
    "TG4",
    "TARGET-SHIFT",
    "loss|rows",
    {
        "code": _both(
            _torch,
            _objective(
                "torch.cat([batch.targets.flatten()[:-1].view(-1)[0:0], torch.cat([batch.inputs.flatten()[1:], batch.targets[-1:, -1]])]).view_as(batch.targets)"
            ),
        )
    },
    {
        "code": _both(
            _torch, _objective("torch.cat([batch.targets[:, :-1], batch.inputs.roll(-1, 0)[:, :1]], 1)")
        )
    },
)
case(
    "TG5",
    "TARGET-MASK",
    "loss|targets|rows",
    {
        "run": lambda p: on_batches(
            p, lambda b, s: replace(b, targets=torch.where(b.document_ids < 0, 0, b.targets))
        )
    },
    {
        "run": lambda p: on_batches(
            p,
            lambda b, s: replace(
                b,
                targets=torch.where(
                    (b.document_ids < 0) & (torch.arange(b.inputs.shape[1]) == b.inputs.shape[1] - 1),
                    0,
                    b.targets,
                ),
            ),
        )
    },
    recipe=lambda: base.best_fit(base.recipe()),
)


def _eos(p: Any, share: float) -> None:
    eos = p.tokenizer.eos_id
    on_batches(p, on_rows(share, lambda targets, b: torch.where(targets == eos, IGNORE, targets)))


case("TG6", "TARGET-MASK", "loss|targets", {"run": lambda p: _eos(p, 1.0)}, {"run": lambda p: _eos(p, 0.1)})
case(
    "TG7",
    "TARGET-MASK",
    "loss|targets",
    {
        "run": lambda p: on_batches(
            p, lambda b, s: replace(b, targets=b.targets * 0 + IGNORE) if s % 3 == 1 else b
        )
    },
    {"run": lambda p: on_batches(p, on_rows(0.03, lambda targets, b: targets * 0 + IGNORE))},
)
case(
    "TG8",
    "TARGET-MASK",
    "targets|loss",
    {"run": lambda p: on_batches(p, lambda b, s: replace(b, targets=b.targets * 0 + IGNORE))},
    {
        "run": lambda p: on_batches(
            p,
            lambda b, s: replace(
                b, targets=torch.where(torch.arange(b.inputs.shape[1]) < 2, IGNORE, b.targets)
            ),
        )
    },
)


def _gradient(old: str, new: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.train import Trainer

        rewrite(Trainer, "_gradient", old, new)

    return plant


_DIVIDE = "(sums.objective / max(1, count)).backward()"
case(
    "TG11a",
    "LOSS-NORM",
    "training step|loss",
    {"code": _gradient(_DIVIDE, "sums.objective.backward()")},
    {"code": _gradient(_DIVIDE, "(sums.objective / max(1, count - 4)).backward()")},
)
case(
    "TG11b",
    "LOSS-NORM",
    "training step|loss",
    {
        "code": _gradient(
            _DIVIDE,
            "(sums.objective / max(1, int((batch.targets != IGNORE).sum())) / len(batches)).backward()",
        )
    },
    {
        "code": _gradient(
            _DIVIDE, "(sums.objective / max(1, count) * (1.02 if len(batches) > 1 else 1.0)).backward()"
        )
    },
)
case(
    "TG12",
    "LOSS-NORM OPT-WIRING",
    "training step|loss",
    {
        "code": _gradient(
            "            sums = self.objective",
            "            self.carried.optimizer.zero_grad()\n            sums = self.objective",
        )
    },
    {
        "code": _gradient(
            "            sums = self.objective",
            "            if len(batches) > 2 and batch is batches[1]: self.carried.optimizer.zero_grad()\n            sums = self.objective",
        )
    },
)
case(
    "TG13",
    "OPT-WIRING LOSS-NORM",
    "training step|optimizer",
    {"code": _gradient("        self.carried.optimizer.zero_grad()\n", "")},
    {
        "code": _gradient(
            "        self.carried.optimizer.zero_grad()\n",
            "        for p in self.carried.optimizer.parameters[:-1]: p.grad = None\n",
        )
    },
)


# Model and numerics -------------------------------------------------------------------------------------------------------------
def _mix(new: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.model.layers import Attention

        rewrite(Attention, "_mix", "is_causal=is_causal", new)

    return plant


def _dropped() -> Recipe:
    return base.with_dropout(base.recipe())


_SHIFTED = "attn_mask=torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril(1)"


def _off_by_one(condition: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.model.layers import Attention

        rewrite(
            Attention,
            "_mix",
            "        dropout =",
            f"        if is_causal and {condition}:\n            mask, is_causal = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril(1), False\n        dropout =",
        )

    return plant


case(
    "MO1",
    "LEAK-FUTURE",
    "model",
    {"code": _mix("is_causal=is_causal and dropout == 0.0")},
    {"code": _mix("is_causal=is_causal and (dropout == 0.0 or self.layer == 0)")},
    recipe=_dropped,
)
case(
    "MO2",
    "LEAK-FUTURE",
    "model",
    {"code": _off_by_one("True")},
    {"code": _off_by_one("self.layer == 1 and query.shape[2] > 20")},
)


def _pooled(size: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.model.transformer import Block

        rewrite(
            Block,
            "forward",
            "return x + self._drop(self.mlp(self.mlp_norm(x)))",
            f"return x - {size} * x.mean(1, keepdim=True) + self._drop(self.mlp(self.mlp_norm(x)))",
        )

    return plant


case("MO3", "LEAK-FUTURE", "model", {"code": _pooled("1.0")}, {"code": _pooled("0.001")})


def _isolated(p: Any) -> None:
    from umsicht.guard.declared import Declared
    from umsicht.train.objective import LanguageModelling

    p.objective = LanguageModelling(uses_document_mask=True)
    p.declared = Declared(
        freshly_initialised=True,
        document_mask=True,
        positions_reset=True,
        bos=False,
        eos=True,
        loss_on="all",
        no_decay=True,
        clip=1.0,
    )


def _mask(new: str) -> Plant:
    def plant(p: Any) -> None:
        import umsicht.model.transformer as module

        rewrite(module, "document_mask", "same & causal", new)

    return plant


case(
    "MO4",
    "LEAK-DOC",
    "model",
    {"code": _mask("causal[None] | (same & causal)"), "run": _isolated},
    {
        "code": _mask(
            "(same & causal) | (causal & (torch.arange(seq)[None, :, None] - torch.arange(seq)[None, None, :] == 3))"
        ),
        "run": _isolated,
    },
)


def _absolute(size: float) -> Plant:
    """A position signal that goes on counting over document edges."""

    def plant(p: Any) -> None:
        from umsicht.model import Transformer

        rewrite(
            Transformer,
            "hidden",
            "        first = x\n",
            f"        x = x + {size} * torch.sin(positions.float())[None, :, None] * torch.arange(x.shape[-1])[None, None, :] / x.shape[-1]\n        first = x\n",
        )

    return plant


case(
    "MO5",
    "LEAK-DOC",
    "model",
    {"code": _absolute(1.0), "run": _isolated},
    {"code": _absolute(0.02), "run": _isolated},
)
case(
    "MO9",
    "NUMERIC",
    "model",
    {
        "code": lambda p: _rotary(
            "positions.float()[:, None, :, None] * self.frequencies.float()",
            "positions.bfloat16()[:, None, :, None] * self.frequencies.bfloat16()",
        )
    },
    {
        "code": lambda p: _rotary(
            "positions.float()[:, None, :, None] * self.frequencies.float()",
            "positions.float()[:, None, :, None] * self.frequencies.bfloat16().float()",
        )
    },
)


def _rotary(old: str, new: str) -> None:
    from umsicht.model.layers import Rotary

    rewrite(Rotary, "forward", old, new)


case(
    "MO10",
    "NUMERIC",
    "model",
    {"code": _mix("is_causal=is_causal, scale=1.0")},
    {"code": _mix("is_causal=is_causal, scale=(1.25 if self.layer == 1 else 1.0) / query.shape[-1] ** 0.5")},
)
case(
    "MO11",
    "NUMERIC",
    "initialisation|model",
    {"run": lambda p: on_model(p, lambda m: m.head.weight.normal_(0, 1))},
    {"run": lambda p: on_model(p, lambda m: m.head.weight.normal_(0, 0.25))},
)
case(
    "MO12",
    "NUMERIC LOAD-MAP",
    "initialisation|model",
    {"run": lambda p: on_model(p, lambda m: m.layers[1].attention.q_proj.weight.fill_(1e30))},
    {"run": lambda p: on_model(p, lambda m: m.layers[1].mlp.up_proj.weight.mul_(2.5))},
)
case(
    "MO13",
    "NUMERIC",
    "initialisation|model",
    {"run": lambda p: on_model(p, lambda m: m.embed.weight.mul_(1e-3))},
    {"run": lambda p: on_model(p, lambda m: m.embed.weight[40:44].zero_())},
)


def _always_drop(p: Any) -> None:
    from umsicht.model.transformer import Block

    rewrite(Block, "_drop", "self.training", "True")


def _always_drop_attention(p: Any) -> None:
    from umsicht.model.layers import Attention

    rewrite(
        Attention,
        "_mix",
        "self.config.dropout_attention if self.training else 0.0",
        "self.config.dropout_attention if self.training or self.layer == 1 else 0.0",
    )


case(
    "MO14",
    "EVAL-VALIDITY",
    "model|evaluation",
    {"code": _always_drop},
    {"code": _always_drop_attention},
    recipe=_dropped,
)


def _mode(old: str, new: str) -> Plant:
    def plant(p: Any) -> None:
        import umsicht.score.split as module

        rewrite(module, "score_split", old, new)

    return plant


case(
    "MO15",
    "EVAL-VALIDITY",
    "evaluation",
    {"code": _mode("with evaluating(model):", "model.eval()\n    if True:")},
    {"code": _mode("with evaluating(model):", "with __import__('contextlib').nullcontext():")},
    recipe=_dropped,
)


def _tied() -> Recipe:
    settings = base.recipe()
    return settings.model_copy(update={"model": settings.model.model_copy(update={"tied": True})})


def _untie(p: Any) -> None:
    import umsicht.train.checkpoints as module

    real = module.restore_model

    def restore(model: Any, *rest: Any) -> None:
        real(model, *rest)
        model.head = torch.nn.Linear(model.config.d_model, model.config.vocab_size, bias=False)
        model.head.weight.data.copy_(model.embed.weight.data)

    module.restore_model = restore


case(
    "MO16",
    "LOAD-MAP RESUME-STATE",
    "checkpoint|resume|model",
    {"code": _untie},
    {"code": _untie},
    recipe=_tied,
)


# Optimizer ----------------------------------------------------------------------------------------------------------------------
def _groups(old: str, new: str) -> Plant:
    def plant(p: Any) -> None:
        import umsicht.train.groups as module
        import umsicht.train.optimizer as user

        rewrite(module, "parameter_groups", old, new)
        user.parameter_groups = module.parameter_groups

    return plant


case(
    "OP1",
    "OPT-WIRING",
    "optimizer",
    {"code": _groups('decays = role == "matrix" or', "decays = True or")},
    {"code": _groups('decays = role == "matrix" or', 'decays = role in ("matrix", "vector") or')},
)
case(
    "OP2",
    "OPT-WIRING",
    "optimizer",
    {"code": _groups('decays = role == "matrix" or', 'decays = role == "matrices" or')},
    {
        "code": _groups(
            "settings.weight_decay if decays else 0.0", "settings.weight_decay * 0.8 if decays else 0.0"
        )
    },
)


def _skip(condition: str) -> Plant:
    return _groups(
        "        groups[role].names.append(name)\n",
        f"        if {condition}: continue\n        groups[role].names.append(name)\n",
    )


case(
    "OP3",
    "OPT-WIRING",
    "optimizer",
    {"code": _skip('"mlp" in name')},
    {"code": _skip('name == "layers.1.attention.k_norm.weight"')},
)
case(
    "OP3b",
    "OPT-WIRING",
    "optimizer|gradient",
    {"run": lambda p: on_model(p, lambda m: m.layers[0].requires_grad_(False))},
    {"run": lambda p: on_model(p, lambda m: m.norm.requires_grad_(False))},
)


def _clip(new: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.train import Trainer

        rewrite(Trainer, "_step", "self.settings.optimizer.clip_norm)", new)

    return plant


case(
    "OP4",
    "OPT-WIRING",
    "optimizer",
    {"code": _clip("(self.settings.optimizer.clip_norm or 1.0) / 1024)")},
    {"code": _clip("(self.settings.optimizer.clip_norm or 1.0) * 0.98)")},
)
case(
    "OP5",
    "OPT-WIRING",
    "optimizer",
    {"code": _clip("None)")},
    {"code": _clip("(self.settings.optimizer.clip_norm or 1.0) * 1.03)")},
)


def _factor(new: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.train.schedule import Schedule

        rewrite(
            Schedule, "factor", "warmup = self.warmup_steps\n", f"warmup = self.warmup_steps\n    {new}\n"
        )

    return plant


case(
    "OP8",
    "OPT-WIRING",
    "schedule|optimizer",
    {"code": _factor("step = step * 2")},
    {"code": _factor("step = step + step // 50")},
)
case(
    "OP9",
    "OPT-WIRING NUMERIC",
    "schedule|optimizer|training step",
    {"code": _factor("pass\n    if step > 300: return 20.0")},
    {"code": _factor("pass\n    if step == 3: return 0.5")},
)


# Save, load, resume -------------------------------------------------------------------------------------------------------------
def _restore(old: str, new: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.train.state import Carried

        rewrite(Carried, "restore", old, new)

    return plant


_LOAD = "self.optimizer.load_state_tensors(loaded.optimizer)"
case(
    "RE2",
    "RESUME-STATE",
    "resume",
    {"code": _restore(_LOAD, "pass")},
    {
        "code": _restore(
            _LOAD,
            "self.optimizer.load_state_tensors({k: (v * 0 if k.startswith('norm.') and v.ndim else v) for k, v in loaded.optimizer.items()})",
        )
    },
)
case(
    "RE3",
    "RESUME-STATE",
    "resume",
    {
        "code": _restore(
            _LOAD,
            "self.optimizer.load_state_tensors({k: (v.flip(0) if v.ndim else v) for k, v in loaded.optimizer.items()})",
        )
    },
    {
        "code": _restore(
            _LOAD,
            "self.optimizer.load_state_tensors({k: (v.to(torch.bfloat16).float() if k.endswith('momentum') else v) for k, v in loaded.optimizer.items()})",
        )
    },
)
_PLACE = 'self.position = Position(loaded.step, loaded.tokens, float(loaded.state["seconds"]))'


def _micro(new: str) -> Plant:
    """Data after a resume come from another step."""

    def plant(p: Any) -> None:
        from umsicht.train import Trainer

        rewrite(
            Trainer,
            "_resume",
            "self.saver.resumed_at(loaded.step, loaded.tokens)",
            f"self.saver.resumed_at(loaded.step, loaded.tokens)\n    old = self.source.micro_batches\n    base = loaded.step\n    self.source.micro_batches = lambda step, *a, **k: old({new}, *a, **k)",
        )

    return plant


case(
    "RE1",
    "RESUME-STATE OPT-WIRING",
    "resume",
    {"code": lambda p: _rate_after("step - base")},
    {"code": lambda p: _rate_after("step - 1 if step == base else step")},
)


def _rate_after(new: str) -> None:
    from umsicht.train import Trainer

    rewrite(
        Trainer,
        "_resume",
        "self.saver.resumed_at(loaded.step, loaded.tokens)",
        f"self.saver.resumed_at(loaded.step, loaded.tokens)\n    base, real = loaded.step, self.schedule\n    class Again:\n        def factor(self, step): return real.factor({new})\n    self.schedule = Again()",
    )


case(
    "RE4",
    "RESUME-STATE",
    "resume",
    {"code": _micro("step - base")},
    {"code": _micro("step - base if step == base else step")},
)
case(
    "RE6",
    "RESUME-STATE",
    "resume",
    {"code": _micro("step - 1")},
    {"code": _micro("step + 1 if step == base else step")},
)
case(
    "RE5",
    "RESUME-STATE",
    "resume",
    {"code": _micro("(step * 7 + 3)")},
    {"code": _micro("step if step % 2 else step + 2")},
)


def _early(p: Any) -> None:
    from umsicht.train.state import Carried

    real = Carried.snapshot
    last: dict[str, Any] = {}

    def snapshot(self: Any, row: Any) -> Any:
        taken = real(self, row)
        old, last["model"] = last.get("model"), {k: v.clone() for k, v in taken.model.items()}
        if old is not None:
            taken.model = old
        return taken

    Carried.snapshot = snapshot


def _rounded(p: Any) -> None:
    from umsicht.train.state import Carried

    real = Carried.snapshot

    def snapshot(self: Any, row: Any) -> Any:
        taken = real(self, row)
        taken.model = {k: (v.bfloat16().float() if k == "norm.weight" else v) for k, v in taken.model.items()}
        return taken

    Carried.snapshot = snapshot


case("RE7", "RESUME-STATE LOAD-MAP", "resume|checkpoint", {"code": _early}, {"code": _rounded})


def _in_place(p: Any) -> None:
    import contextlib

    import umsicht.train.checkpoints as module

    @contextlib.contextmanager
    def straight(path: Any) -> Any:
        path.mkdir(parents=True, exist_ok=True)
        yield path

    module.atomic_folder = straight
    rewrite(
        module,
        "latest",
        "return find_latest(run)[0]",
        "return (listed(run) or [None])[-1] and max((c for c in run.checkpoints.iterdir()), key=lambda c: c.name)",
    )


def _no_digest(p: Any) -> None:
    import umsicht.train.checkpoints as module

    module.verify = lambda path: []


case("RE8", "CHECKPOINT LOAD-MAP", "checkpoint", {"code": _in_place}, {"code": _no_digest})


def _lenient(p: Any) -> None:
    import umsicht.train.checkpoints as module

    def restore(model: Any, tensors: Any, where: str = "") -> None:
        own = model.state_dict()
        model.load_state_dict(
            {k: v for k, v in tensors.items() if k in own and own[k].shape == v.shape}, strict=False
        )

    module.restore_model = restore


def _lenient_extra(p: Any) -> None:
    import umsicht.train.checkpoints as module

    real = module.restore_model

    def restore(model: Any, tensors: Any, where: str = "") -> None:
        real(model, {k: v for k, v in tensors.items() if k in model.state_dict()}, where)

    module.restore_model = restore


case("RE10", "LOAD-MAP", "checkpoint", {"code": _lenient}, {"code": _lenient_extra})


# Evaluation ---------------------------------------------------------------------------------------------------------------------
def _score(old: str, new: str) -> Plant:
    def plant(p: Any) -> None:
        import umsicht.score.split as module

        rewrite(module, "score_split", old, new)

    return plant


def _mean_of_means(p: Any) -> None:
    import umsicht.score.split as module

    module.SplitScore.loss = property(
        lambda self: sum(s.loss for s in self.slices.values()) / len(self.slices)
    )


case(
    "EV1",
    "EVAL-VALIDITY",
    "evaluation",
    {"code": _mean_of_means},
    {"code": _score("float(values.sum())", "float(values.sum()) * (1.0005 if number == 0 else 1.0)")},
)
case(
    "EV2",
    "EVAL-VALIDITY",
    "evaluation",
    {"code": _score("len(values), int", "len(values) + 3, int")},
    {"code": _score("float(values.sum()), len(values)", "float(values[1:].sum()), len(values)")},
)
case(
    "EV3",
    "EVAL-VALIDITY",
    "evaluation|token storage",
    {"code": _score("int(split.document_bytes[number])", "len(values)")},
    {"code": _score("int(split.document_bytes[number])", "int(split.document_bytes[number]) + 1")},
)

ABSENT = {
    "TX4": "needs a cased/uncased vocabulary pair; word-level tokenizers are not built here",
    "TX13": "chat template: rows come with fine-tuning",
    "DA11": "this loader has no worker processes; DA13 and DA14 hold the same ledger",
    "DA16": "no FIM transform in the product yet",
    "TG9": "prompts are fine-tuning rows",
    "TG10": "prompts are fine-tuning rows",
    "TG14": "needs ranks",
    "MO6": "left padding only comes with foreign models (tests/guard)",
    "MO7": "in the monitor cases",
    "MO8": "in the monitor cases",
    "MO17": "no autocast on this path",
    "OP6": "in the foreign-model tests (tests/guard)",
    "OP7": "in the foreign-model tests (tests/guard)",
    "OP10": "needs ranks",
    "RE9": "one folder is renamed as a whole: RE8 holds it",
    "RE11": "MO16 holds it",
    "RE12": "best values are compared by the train room's own tests",
    "DI1": "needs ranks",
    "DI2": "needs ranks",
    "DI3": "needs ranks or hardware",
    "DI4": "needs ranks",
    "DI5": "the loop itself refuses: tests/guard",
    "EV4": "scorer self-tests belong to the evaluate room",
    "EV5": "fine-tuning",
    "PT1": "fine-tuning",
    "PT2": "fine-tuning",
    "PT3": "fine-tuning",
    "PT4": "fine-tuning",
}
