"""Near-duplicates of documents and paragraphs: sketches, candidate pairs, exact verification, a keep rule without chains."""

from umsicht.corpus.near.run import NearJob, NearResult, find_near

__all__ = ["NearJob", "NearResult", "find_near"]
