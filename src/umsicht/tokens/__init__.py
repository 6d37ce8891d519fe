"""Token shards, packing, mix and the stateless order of the data."""

from umsicht.tokens.batch import IGNORE, Batch, BatchSource
from umsicht.tokens.data import Split, TokenData
from umsicht.tokens.packed import PackedSource

__all__ = ["IGNORE", "Batch", "BatchSource", "PackedSource", "Split", "TokenData"]
