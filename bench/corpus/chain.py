"""The whole chain, one process: JSONL in, corpus artifact out; HTML in, corpus artifact and exact count of its tokens out. CPU time over bytes read."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from bench.common import QUICK, Bench
from bench.corpus.texts import varied
from umsicht.corpus import CorpusInputs, build
from umsicht.corpus.count import exact
from umsicht.recipe.corpus import CorpusSettings
from umsicht.recipe.tokenizer import TokenizerSettings
from umsicht.record import QUIET, Artifact, Store
from umsicht.tokenizer import Sample, Tokenizer, train

SIZE = 16_000_000 if QUICK else 128_000_000


def run(bench: Bench) -> None:
    """From JSONL, then from HTML pages; a small build first warms the kernels."""
    texts = varied(SIZE, seed=1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _build(_jsonl(texts[:200], folder / "warm"), folder / "warm")
        size, seconds = _timed(_jsonl(texts, folder / "json"), folder / "json")
        bench.figure(
            "whole chain from JSONL",
            size / seconds / 1e6,
            ">= 10",
            unit="MB/s CPU",
            note=f"{size / 1e6:.0f} MB",
        )
        pages = texts[: len(texts) // 4]
        tokenizer = _tokenizer(texts[:3_000], folder / "tokenizer")
        size, seconds = _timed(_html(pages, folder / "html"), folder / "html", tokenizer)
        bench.figure(
            "whole chain from HTML, tokens counted exactly",
            size / seconds / 1e6,
            ">= 4",
            unit="MB/s CPU",
            note=f"{size / 1e6:.0f} MB, one page a file",
        )


def _jsonl(texts: list[str], folder: Path) -> Path:
    target = folder / "in"
    target.mkdir(parents=True)
    with (target / "a.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
    return target


def _html(texts: list[str], folder: Path) -> Path:
    target = folder / "in"
    target.mkdir(parents=True)
    for number, text in enumerate(texts):
        body = "".join(f"<p>{line.replace('<', '&lt;')}</p>" for line in text.split("\n") if line)
        page = f"<!doctype html><html><head><title>t</title><script>var a=1;</script></head><body><nav><ul><li>Home</li></ul></nav><main>{body}</main></body></html>"
        (target / f"{number:06d}.html").write_text(page, encoding="utf-8")
    return target


def _tokenizer(texts: list[str], folder: Path) -> Tokenizer:
    train(
        TokenizerSettings(vocab_size=4_096),
        lambda: (Sample(text, "en", "bench") for text in texts),
        folder,
        QUIET,
    )
    return Tokenizer.load(folder)


def _timed(source: Path, folder: Path, tokenizer: Tokenizer | None = None) -> tuple[int, float]:
    size = sum(path.stat().st_size for path in source.iterdir())
    started = time.process_time()
    made = _build(source, folder)
    if tokenizer is not None:
        exact(made, tokenizer.encode_batch)
    return size, time.process_time() - started


def _build(source: Path, folder: Path) -> Artifact:
    settings = CorpusSettings.model_validate(
        {
            "sources": [{"name": "bench", "path": str(source), "licence": "CC0-1.0"}],
            "engine": {"executor": "serial"},
        }
    )
    return build(settings, CorpusInputs(Store(folder / "artifacts")))
