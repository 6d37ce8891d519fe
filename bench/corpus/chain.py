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
            note=f"{size / 1e6:.0f} MB, pages of about {PAGE_CHARACTERS} characters of text, one a file",
        )
        size, seconds = _timed(_html(texts[-2_000:], folder / "small", 1), folder / "small", tokenizer)
        bench.figure(
            "the same, pages of about a thousand characters of text",
            size / seconds / 1e6,
            unit="MB/s CPU",
            note=f"{size / 1e6:.0f} MB",
        )


def _jsonl(texts: list[str], folder: Path) -> Path:
    target = folder / "in"
    target.mkdir(parents=True)
    with (target / "a.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
    return target


PAGE_CHARACTERS = 6_000
_HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Page {n}</title>
<style>{style}</style><script>{script}</script></head><body class="page"><header><a href="/" class="logo">Site</a><nav><ul>{links}</ul></nav></header>
<main><article class="article"><h1>Page {n}</h1>"""
_FOOT = """</article></main><aside><h2>Related</h2><ul>{links}</ul></aside><footer><p>Imprint, privacy, contact</p></footer></body></html>"""
_LINKS = "".join(
    f'<li class="menu__item"><a href="/section/{k}" class="menu__link">Section {k}</a></li>'
    for k in range(30)
)
_STYLE = "".join(f".menu__item--{k}{{margin:{k}px auto;padding:0 {k}rem}}" for k in range(30))
_SCRIPT = "".join(f"window.settings_{k}={{'name':'{k}','active':true}};" for k in range(40))


def _html(texts: list[str], folder: Path, characters: int = PAGE_CHARACTERS) -> Path:
    """Pages of about so many characters of text, with the navigation, style and script that pages have."""
    target = folder / "in"
    target.mkdir(parents=True)
    lines: list[str] = []
    held = number = 0
    for text in [*texts, None]:
        if text is not None:
            lines += [line for line in text.split("\n") if line]
            held += len(text)
        if lines and (text is None or held >= characters):
            body = "".join(f'<p class="article__text">{line.replace("<", "&lt;")}</p>\n' for line in lines)
            head = _HEAD.format(n=number, style=_STYLE, script=_SCRIPT, links=_LINKS)
            (target / f"{number:06d}.html").write_text(
                head + body + _FOOT.format(links=_LINKS), encoding="utf-8"
            )
            lines, held, number = [], 0, number + 1
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
