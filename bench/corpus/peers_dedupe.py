"""Near-duplicates with the peers' own means, each in its own environment: Parquet in, keep-list out, one thread.

    python peers_dedupe.py daft|rensa|datasketch|datatrove corpus.parquet keep.txt

Prints one JSON line: CPU seconds of the work (imports and a warm-up left out) and documents kept. Word 5-grams of lower-cased text, 128 permutations,
the bands that each library (or the same 14 × 9 cut) gives for a similarity of 0.7 to 0.8. None of them verifies its pairs.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path

os.environ.update(
    OMP_NUM_THREADS="1",
    RAYON_NUM_THREADS="1",
    DAFT_RUNNER="native",
    DO_NOT_TRACK="true",
    DAFT_ANALYTICS_ENABLED="0",
)

PERMUTATIONS, BANDS, ROWS, WORDS = 128, 14, 9, 5
_WORD = re.compile(r"\w+")


def shingles(text: str) -> list[str]:
    """Word 5-grams, as these libraries' own examples make them."""
    words = _WORD.findall(text.lower())
    return [" ".join(words[i : i + WORDS]) for i in range(max(len(words) - WORDS + 1, 1))]


def texts_of(path: str) -> list[str]:
    """The text column."""
    import pyarrow.parquet as pq

    found: list[str] = pq.read_table(path, columns=["text"]).column("text").to_pylist()
    return found


def datasketch(path: str) -> set[int]:
    """MinHash and MinHashLSH."""
    from datasketch import MinHash, MinHashLSH

    index = MinHashLSH(num_perm=PERMUTATIONS, params=(BANDS, ROWS))
    kept = set()
    for number, text in enumerate(texts_of(path)):
        sketch = MinHash(num_perm=PERMUTATIONS)
        sketch.update_batch([shingle.encode() for shingle in shingles(text)])
        if not index.query(sketch):
            kept.add(number)
            index.insert(number, sketch)
    return kept


def rensa(path: str) -> set[int]:
    """RMinHash and RMinHashLSH."""
    from rensa import RMinHash, RMinHashLSH

    index = RMinHashLSH(threshold=0.7, num_perm=126, num_bands=BANDS)
    kept = set()
    for number, text in enumerate(texts_of(path)):
        sketch = RMinHash(num_perm=126, seed=42)
        sketch.update(shingles(text))
        if not index.query(sketch):
            kept.add(number)
            index.insert(number, sketch)
    return kept


def daft(path: str) -> set[int]:
    """The engine's own minhash expression, bands as keys, the first document of each key kept."""
    import daft as engine
    from daft import col

    frame = engine.read_parquet(path).select("text")
    frame = (
        frame._add_monotonically_increasing_id("number")
        if hasattr(frame, "_add_monotonically_increasing_id")
        else frame
    )
    signed = frame.select(
        "number",
        col("text")
        .normalize(remove_punct=True, lowercase=True, nfd_unicode=True, white_space=True)
        .minhash(num_hashes=PERMUTATIONS, ngram_size=WORDS, seed=1, hash_function="xxhash")
        .alias("signature"),
    ).to_arrow()
    import numpy as np
    import pyarrow as pa

    column = signed.column("signature")
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    signatures = column.flatten().to_numpy().reshape(-1, PERMUTATIONS).astype(np.uint64)
    numbers = signed.column("number").to_numpy()
    order = np.argsort(numbers)
    signatures, numbers = signatures[order], numbers[order]
    factors = np.random.default_rng(1).integers(1, 1 << 63, ROWS, np.uint64) | np.uint64(1)
    dropped = np.zeros(len(numbers), bool)
    for band in range(BANDS):
        keys = (signatures[:, band * ROWS : (band + 1) * ROWS] * factors).sum(1)
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        dropped |= first[group] < np.arange(len(numbers))
    return set(numbers[~dropped].tolist())


def datatrove(path: str) -> set[int]:
    """Its four stages one after the other: signatures, pairs of each bucket, clusters, what a cluster leaves over."""
    import tempfile

    from datatrove.data import Document
    from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.utils.word_tokenizers import WordTokenizer

    class Words(WordTokenizer):
        """The same words as for the others; its own English tokenizer would need a spaCy model's rules."""

        def word_tokenize(self, text: str) -> list[str]:
            return _WORD.findall(text)

        def sent_tokenize(self, text: str) -> list[str]:
            return [text]

        def span_tokenize(self, text: str) -> list[tuple[int, int]]:
            return [(0, len(text))]

    config = MinhashConfig(n_grams=WORDS, num_buckets=BANDS, hashes_per_bucket=ROWS)
    documents = [Document(text=text, id=str(number)) for number, text in enumerate(texts_of(path))]
    with tempfile.TemporaryDirectory() as name:
        signatures, pairs, removed = (f"{name}/{part}" for part in ("signatures", "pairs", "removed"))
        MinhashDedupSignature(signatures, config, language=Words("en")).run(iter(documents), 0, 1)
        for bucket in range(BANDS):
            MinhashDedupBuckets(signatures, pairs, config=config).run(None, bucket, BANDS)
        MinhashDedupCluster(pairs, removed, config).run(None, 0, 1)
        found = Path(removed) / "000000.remove"
        dropped = set(memoryview(found.read_bytes()).cast("I").tolist()) if found.is_file() else set()
    return set(range(len(documents))) - dropped


def main() -> None:
    """Warm up on nothing, work, report."""
    name, path, out = sys.argv[1:4]
    peer = {"daft": daft, "rensa": rensa, "datasketch": datasketch, "datatrove": datatrove}[name]
    small = sys.argv[4] if len(sys.argv) > 4 else ""
    if small:
        peer(small)
    cpu, wall = time.process_time(), time.perf_counter()
    kept = peer(path)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    Path(out).write_text("\n".join(map(str, sorted(kept))), encoding="utf-8")
    print(json.dumps({"cpu_s": cpu, "wall_s": wall, "kept": len(kept)}))


if __name__ == "__main__":
    main()
