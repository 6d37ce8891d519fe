"""How faults are planted: small changes of code or data, never a setting that a check could read."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from umsicht.tokens.batch import Batch


def rewrite(owner: Any, name: str, old: str, new: str) -> None:
    """Replace a piece of a function's source and put the changed function in its place."""
    function = inspect.getattr_static(owner, name)
    plain = function.__func__ if isinstance(function, staticmethod | classmethod) else function
    source = inspect.getsource(plain)
    if old not in source:
        raise LookupError(f"{old!r} is not in {name}")
    space = dict(sys.modules[plain.__module__].__dict__)
    lines = source.replace(old, new)
    # A method keeps its indentation, so that what is replaced reads here as it reads in its file.
    head = "if True:\n" if lines[:1].isspace() else ""
    exec(compile("from __future__ import annotations\n" + head + lines, f"planted:{name}", "exec"), space)
    changed = space[name]
    if inspect.ismodule(owner):
        # Whoever imported the function by name gets the changed one, as if the file had been edited.
        for module in [m for key, m in sys.modules.items() if key.startswith(("umsicht.", "bench."))]:
            for key, value in list(vars(module).items()):
                if value is function:
                    setattr(module, key, changed)
    setattr(
        owner, name, type(function)(changed) if isinstance(function, staticmethod | classmethod) else changed
    )


class Changed:
    """A batch source whose batches go through a change; everything else is the real source's."""

    def __init__(self, source: Any, change: Callable[[Batch, int], Batch]) -> None:
        self.source, self.change = source, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def batch(self, step: int) -> Batch:
        """The changed global batch."""
        return self.change(self.source.batch(step), step)

    def micro_batches(self, step: int, rows: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """Parts of the changed global batch."""
        whole = self.batch(step)
        size = whole.inputs.shape[0] // world
        start = rank * size
        for first in range(start, start + size, rows):
            yield whole.slice(first, min(first + rows, start + size))


def on_batches(pipeline: Any, change: Callable[[Batch, int], Batch]) -> None:
    """Put a change between the source and everybody who reads it."""
    real = pipeline.make_source
    pipeline.make_source = lambda steps: Changed(real(steps), change)


def on_model(pipeline: Any, change: Callable[[Any], None]) -> None:
    """Change every fresh model."""
    real = pipeline.make_model

    def make() -> Any:
        model = real()
        with torch.no_grad():
            change(model)
        return model

    pipeline.make_model = make


def on_rows(
    share: float, change: Callable[[torch.Tensor, Batch], torch.Tensor]
) -> Callable[[Batch, int], Batch]:
    """A change of the targets of some rows, chosen by sample number."""

    def apply(batch: Batch, step: int) -> Batch:
        new = change(batch.targets.clone(), batch)
        hit = torch.tensor([(number * 2654435761) % 1000 < 1000 * share for number in batch.rows.tolist()])
        return replace(batch, targets=torch.where(hit[:, None], new, batch.targets))

    return apply


def shards(pipeline: Any, split: str, change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> None:
    """Rewrite stored tokens."""
    for path in sorted(Path(pipeline.tokens, split).glob("*.tokens.npy")):
        np.save(path, change(np.load(path)))


def on_texts(
    pipeline: Any, change: Callable[[str], str], where: Callable[[Any], bool] = lambda one: True
) -> None:
    """Change documents on the path that writes token files, and only there."""
    import umsicht.tokens.stage as stage

    real = stage.encode_documents

    def planted(tokenizer: Any, documents: Any, threads: Any = None) -> Any:
        for one, ids, size in real(tokenizer, documents, threads):
            if where(one):
                fresh = tokenizer.encode(change(one.text))
                ids = np.asarray([*fresh, tokenizer.eos_id], dtype=np.uint32)
            yield one, ids, size

    stage.encode_documents = planted


def on_ids(
    change: Callable[[np.ndarray[Any, Any], Any], np.ndarray[Any, Any]],
    where: Callable[[Any], bool] = lambda one: True,
) -> None:
    """Change the ids of documents while they are stored."""
    import umsicht.tokens.stage as stage

    real = stage.encode_documents

    def planted(tokenizer: Any, documents: Any, threads: Any = None) -> Any:
        for one, ids, size in real(tokenizer, documents, threads):
            yield one, (change(ids, tokenizer) if where(one) else ids), size

    stage.encode_documents = planted


def some(share: float) -> Callable[[Any], bool]:
    """A share of the documents, chosen by their text."""
    return lambda one: int(one.id[:4], 16) % 1000 < 1000 * share
