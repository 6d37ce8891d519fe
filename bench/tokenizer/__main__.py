"""`make bench-tokenizer`: what the stratified sample adds to bare training, and how much faster encoding is, with equal ids.

Text is what is installed with Python (sources and documentation of the standard library and of installed packages), so the bench runs anywhere;
languages other than English come from the folder named by `UMSICHT_TEST_DATA` where it is set. Both sides run on one thread, in turn, and are
compared by processor time, because machines are shared.
"""

from __future__ import annotations

import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import gzip
import statistics
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.common import QUICK, Bench, data_folder
from umsicht.recipe.tokenizer import TokenizerSettings
from umsicht.record.progress import QUIET
from umsicht.tokenizer import Sample, Tokenizer, train
from umsicht.tokenizer.adversarial import ADVERSARIAL
from umsicht.tokenizer.pretokenize import PATTERNS
from umsicht.tokenizer.roundtrip import findings as text_loss

TRAIN_BYTES = 8_000_000 if QUICK else 20_000_000
ENCODE_BYTES = 10_000_000 if QUICK else 100_000_000
REPEATS = 1 if QUICK else 3
VOCAB = 8192
DOCUMENT_CHARACTERS = 20_000


def documents(limit: int) -> list[Sample]:
    """Real documents up to `limit` bytes: parallel news and books where test data are there, then installed Python sources."""
    found: list[Sample] = []
    size = 0
    for sample in (*foreign(), *installed(limit)):
        found.append(sample)
        size += len(sample.text.encode())
        if size >= limit:
            break
    return found


def foreign() -> Iterator[Sample]:
    """Books and web documentation in many languages, in documents of ordinary length."""
    folder = data_folder()
    for name in ("books", "fastapi-docs", "udhr", "xquad") if folder else ():
        assert folder is not None
        for file in sorted((folder / name).rglob("*.gz")):
            text = gzip.decompress(file.read_bytes()).decode("utf-8", errors="ignore")
            for start in range(0, len(text), DOCUMENT_CHARACTERS):
                yield Sample(text[start : start + DOCUMENT_CHARACTERS], file.name.split(".")[0][-2:], name)


def installed(limit: int) -> Iterator[Sample]:
    """Sources that come with Python and the packages of this environment, over and over until there is enough."""
    files: list[Path] = []
    for key in ("stdlib", "purelib"):
        files += sorted(Path(sysconfig.get_path(key)).rglob("*.py"))
    round_number, size = 0, 0
    while size < limit:
        for file in files:
            try:
                text = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            size += len(text)
            yield Sample(text, "en", f"code{round_number}")
        round_number += 1


def cpu(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Processor and wall seconds of a call, and its result."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return time.process_time() - processor, time.perf_counter() - wall, result


def bare_training(texts: list[str]) -> Any:
    """The same merges with the library alone, as its documentation does it."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    engine = Tokenizer(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERNS["qwen2"]), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    engine.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        min_frequency=2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    engine.train_from_iterator(texts, trainer)
    return engine


def training(bench: Bench, folder: Path) -> None:
    """Stratified sampling and training against training on as much text without any choice."""
    stock = documents(2 * TRAIN_BYTES)
    settings = TokenizerSettings(vocab_size=VOCAB, sample_bytes=TRAIN_BYTES)
    sampled: list[str] = []
    from umsicht.tokenizer.sample import plan_sample

    sampled = list(plan_sample(settings, stock).choose(stock))
    ours, bare, ours_wall, bare_wall = [], [], [], []
    for repeat in range(REPEATS):
        a, a_wall, _ = cpu(lambda repeat=repeat: train(settings, lambda: stock, folder / f"t{repeat}", QUIET))
        b, b_wall, _ = cpu(lambda: bare_training(sampled))
        ours, bare = [*ours, a], [*bare, b]
        ours_wall, bare_wall = [*ours_wall, a_wall], [*bare_wall, b_wall]
    ratio = statistics.median(a / b for a, b in zip(ours, bare, strict=True))
    bench.figure(
        "training: sampling, training and checks ÷ bare training, CPU",
        ratio,
        "<= 1.15",
        note=f"{TRAIN_BYTES / 1e6:.0f} MB sample",
    )
    bench.figure(
        "training: ours",
        statistics.median(ours),
        unit="CPU s",
        note=f"wall {statistics.median(ours_wall):.1f} s",
    )
    bench.figure(
        "training: bare tokenizers",
        statistics.median(bare),
        unit="CPU s",
        note=f"wall {statistics.median(bare_wall):.1f} s",
    )


def encoding(bench: Bench, tokenizer: Tokenizer) -> None:
    """Encode the same documents with both; every id is compared."""
    texts = [sample.text for sample in documents(ENCODE_BYTES)]
    size = sum(len(text.encode()) for text in texts)
    engine = tokenizer._slow
    chunks = np.array_split(np.arange(len(texts)), max(3, REPEATS))
    ratios, equal, ours_total, bare_total, compared = [], True, 0.0, 0.0, 0
    for chunk in chunks:
        part = [texts[index] for index in chunk]
        bare, _, theirs = cpu(lambda part=part: engine.encode_batch(part, add_special_tokens=False))
        ours, _, mine = cpu(lambda part=part: [tokenizer.encode_array(text) for text in part])
        ratios.append(bare / ours)
        ours_total, bare_total = ours_total + ours, bare_total + bare
        equal = equal and all(np.array_equal(a, b.ids) for a, b in zip(mine, theirs, strict=True))
        compared += sum(len(a) for a in mine)
    bench.figure(
        "encoding: × tokenizers.encode_batch, per core (CPU)",
        statistics.median(ratios),
        ">= 4",
        note=f"{size / 1e6:.0f} MB, {len(chunks)} parts in turn",
    )
    bench.figure("encoding: ids equal", float(equal), "== 1", note=f"{compared / 1e6:.1f}M ids compared")
    bench.figure("encoding: ours", size / ours_total / 1e6, unit="MB/s a core")
    bench.figure("encoding: tokenizers.encode_batch", size / bare_total / 1e6, unit="MB/s a core")


def losses(bench: Bench, tokenizer: Tokenizer) -> None:
    """Nothing is lost on the way there and back."""
    stock = documents(2_000_000)
    found = text_loss(tokenizer, ((sample.domain, sample.text) for sample in stock))
    bench.figure(
        "round trip: texts changed",
        float(len(found)),
        "== 0",
        note=f"{len(ADVERSARIAL)} adversarial and {len(stock)} real texts, every byte",
    )


def main() -> None:
    """Run all parts."""
    bench = Bench("tokenizer", str(__doc__).split("\n\n", 1)[1].replace("\n", " ").strip())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        training(bench, folder)
        tokenizer = Tokenizer.load(folder / "t0")
        encoding(bench, tokenizer)
        losses(bench, tokenizer)
    bench.finish()


if __name__ == "__main__":
    sys.exit(main())
