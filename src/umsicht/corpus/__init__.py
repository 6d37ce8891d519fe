"""Corpus: read, extract, clean, set validation aside, deduplicate, decontaminate, count.

Stages are pure functions over Arrow tables; only `engine.py` knows who runs them. Reading a finished corpus needs none of them: the stage, with
its compiled kernels, is imported where it is asked for.
"""

from typing import TYPE_CHECKING, Any

from umsicht.corpus.document import Document, documents

if TYPE_CHECKING:
    from umsicht.corpus.stage import STAGE_VERSION, CorpusInputs, build

__all__ = ["STAGE_VERSION", "CorpusInputs", "Document", "build", "documents"]


def __getattr__(name: str) -> Any:
    if name in ("STAGE_VERSION", "CorpusInputs", "build"):
        from umsicht.corpus import stage

        return getattr(stage, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
