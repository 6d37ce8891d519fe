"""Corpus: read, extract, clean, set validation aside, deduplicate, decontaminate, count.

Stages are pure functions over Arrow tables; only `engine.py` knows who runs them.
"""

from umsicht.corpus.document import Document, documents
from umsicht.corpus.stage import STAGE_VERSION, CorpusInputs, build

__all__ = ["STAGE_VERSION", "CorpusInputs", "Document", "build", "documents"]
