"""Data sets of the Hugging Face hub, streamed, and folders that `save_to_disk` wrote. The package `datasets` is optional."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from umsicht.corpus.sources.unit import Broken, Raw, SourceInfo, Unit, document_of
from umsicht.findings import UserError
from umsicht.recipe.corpus import SourceSettings
from umsicht.words import t

ADDRESS = "hf://"
UNKNOWN_BYTES = 1_000_000_000
"""What a data set on the hub is taken to hold when work is planned; its size is not known before it is read."""


def hub_units(source: SourceSettings, root: Path) -> list[Unit]:
    """The one unit of a data set. Raises UserError where the package is missing, or a data set of the hub has no fixed revision."""
    if importlib.util.find_spec("datasets") is None:
        raise UserError(t("corpus.hub.package.what", source=source.name), fix=t("corpus.hub.package.fix"))
    folder = (root / source.path).expanduser()
    if folder.is_dir():
        address = str(folder)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    elif not source.revision:
        raise UserError(
            t("corpus.hub.revision.what", source=source.name),
            where=f"corpus.sources.{source.name}.revision",
            why=t("corpus.hub.revision.why"),
            fix=t("corpus.hub.revision.fix"),
        )
    else:
        address = f"{ADDRESS}{source.path}@{source.revision}"
        size = source.max_bytes or UNKNOWN_BYTES
    return [
        Unit(
            SourceInfo(source.name, source.domain, source.language, source.licence),
            "huggingface",
            (address,),
            (f"{source.name}:{source.subset}{'/' if source.subset else ''}{source.split}",),
            size,
            limit_bytes=source.max_bytes,
            text_field=source.text_field,
            language_field=source.language_field,
            licence_field=source.licence_field,
            options=(source.path, source.subset, source.split, source.revision),
        )
    ]


def read_hub(unit: Unit, path: str, name: str, limit: int) -> Iterator[Raw | Broken]:
    """Rows of a data set; a row without text is listed and skipped. Raises UserError where it cannot be opened."""
    for number, row in enumerate(_open(unit, path)):
        yield document_of(unit, row, f"{name}#{number}")


def _open(unit: Unit, path: str) -> Any:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import datasets

    name, subset, split, revision = unit.options
    try:
        if not path.startswith(ADDRESS):
            loaded: Any = datasets.load_from_disk(path)
            return loaded[split] if isinstance(loaded, dict) else loaded
        return datasets.load_dataset(name, subset or None, split=split, revision=revision, streaming=True)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise UserError(
            t("corpus.hub.failed.what", path=name),
            where=f"corpus.sources.{unit.source.name}",
            why=str(error).split("\n")[0],
            fix=t("corpus.hub.failed.fix"),
        ) from error
