"""Splits made of counting numbers: every token says which document it is from and where it stood."""

import numpy as np

from umsicht.tokens.data import Split

EOS = 0


def make_split(lengths, sources=None, slices=None) -> Split:
    """Documents of these lengths (end token included) with distinct ids from 1 up."""
    total = int(sum(lengths))
    tokens = np.arange(1, total + 1, dtype=np.uint32)
    ends = np.cumsum(lengths)
    tokens[ends - 1] = EOS
    lengths = np.asarray(lengths, dtype=np.int64)
    sources = np.asarray(sources if sources is not None else np.zeros(len(lengths)), dtype=np.int32)
    slices = np.asarray(slices if slices is not None else sources, dtype=np.int32)
    return Split(
        "train",
        (tokens,),
        np.zeros(len(lengths), np.int32),
        ends - lengths,
        lengths,
        slices,
        sources,
        lengths * 3,
        [f"domain{i}.en" for i in range(int(slices.max(initial=0)) + 1)],
        [f"source{i}" for i in range(int(sources.max(initial=0)) + 1)],
    )
