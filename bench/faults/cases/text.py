"""Faults of text and tokens (TX)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from bench.faults.case import Plant, case
from bench.faults.plant import on_ids, on_model, on_texts, rewrite, shards, some


def _spaces(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text)


def _nfkc(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


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


def _cleaned(change: Callable[[str], str], where: Callable[[Any], bool]) -> Plant:
    """Lost between source and corpus: the text as read stands beside the text as handed on."""

    def plant(p: Any) -> None:
        p.raw = list(p.train)
        p.train[:] = [replace(one, text=change(one.text)) if where(one) else one for one in p.train]

    return plant


case(
    "TX1b",
    "TEXT-LOSS",
    "raw text",
    {"text": _cleaned(str.lower, lambda one: True)},
    {"text": _cleaned(str.lower, lambda one: one.slice == "prose.de")},
)
case(
    "TX2b",
    "TEXT-LOSS",
    "raw text",
    {"text": _cleaned(_spaces, lambda one: True)},
    {"text": _cleaned(lambda text: text.replace("\n", " "), lambda one: one.source == "stdlib")},
)
