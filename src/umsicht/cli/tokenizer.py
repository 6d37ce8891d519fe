"""`umsicht tokenizer`: train one, look at one, compare sizes and published vocabularies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import cyclopts

from umsicht.cli.output import human, print_finding, print_json, print_table
from umsicht.findings import Finding, UserError
from umsicht.record.progress import QUIET
from umsicht.tokenizer import Sample, Tokenizer
from umsicht.words import t

tokenizer = cyclopts.App(name="tokenizer", help=t("cli.verb.tokenizer"))


@tokenizer.command
def train(recipe: Path, *, out: Path | None = None, json: bool = False, dry_run: bool = False) -> int:
    """Train the recipe's tokenizer on its corpus and show what it costs in each language. Nothing is made twice.

    Parameters
    ----------
    recipe
        The recipe file.
    out
        Folder of the project.
    json
        Print the report as JSON.
    dry_run
        Print the settings and stop.
    """
    from umsicht.cli.walks import open_walk
    from umsicht.pipeline import stages

    walk = open_walk(recipe, out=out, overrides=[], waive=[], because="")
    if dry_run:
        print_json(walk.recipe.tokenizer.plain())
        return 0
    made = stages.tokenizer(walk, stages.corpus(walk))
    return _show(made.report, str(made.path), json=json)


@tokenizer.command
def report(path: Path, *text: Path, parallel: Path | None = None, json: bool = False) -> int:
    """What a tokenizer costs by language and domain, whether text comes back unchanged, and what is in its vocabulary.

    Parameters
    ----------
    path
        A tokenizer artifact or a tokenizer.json.
    text
        Held-out text to measure on: files or folders of .txt, .md, .py, or .jsonl with text, language and domain. Without it the figures
        recorded with an artifact are shown.
    parallel
        Your own parallel text, JSONL with language, id and text, instead of the built-in sentences.
    json
        Print JSON.
    """
    from umsicht.recipe.tokenizer import TokenizerSettings
    from umsicht.record import Artifact
    from umsicht.tokenizer import parallel as side_by_side
    from umsicht.tokenizer.report import report as make

    loaded = Tokenizer.load(path)
    if not text and (path / "report.json").is_file():
        said = Artifact.open(path).report
    else:
        said = make(loaded, TokenizerSettings(), read_text(text), sample=None)
    if parallel is not None:
        costs = side_by_side.costs(loaded, side_by_side.read(parallel))
        said["parallel"] = {cost.language: cost.to_dict() for cost in costs}
    return _show(said, str(path), json=json)


@tokenizer.command
def compare(
    path: Path,
    *text: Path,
    sizes: list[int] | None = None,
    json: bool = False,
) -> int:
    """Compare on the same text: with --sizes, vocabularies of these sizes trained on it; without, a tokenizer with published ones.

    Parameters
    ----------
    path
        A tokenizer artifact or tokenizer.json; with --sizes a recipe, whose corpus is used.
    text
        Held-out text (as for `report`).
    sizes
        Vocabulary sizes to measure, e.g. --sizes 2048 --sizes 4096 --sizes 8192.
    json
        Print JSON.
    """
    if sizes:
        return _compare_sizes(path, sizes, json=json)
    from umsicht.tokenizer.report import compare as make

    compared = make(Tokenizer.load(path), read_text(text))
    if json:
        print_json(compared)
        return 0
    names = list(compared)
    print_table(
        [t("tokenizer.column.slice"), *names],
        [
            (t("tokenizer.row.n_tokens"), *(compared[name]["n_tokens"] for name in names)),
            (t("tokenizer.row.bytes_per_token"), *(compared[name]["bytes_per_token"] for name in names)),
            *_rows_by_slice(compared),
        ],
        title=t("tokenizer.compare_title"),
    )
    if len(names) == 1:
        print(t("tokenizer.no_references"))
    return 0


def _rows_by_slice(compared: Mapping[str, Any]) -> list[Sequence[object]]:
    slices = compared["this"]["slices"]
    return [(name, *(one["slices"][name]["bytes_per_token"] for one in compared.values())) for name in slices]


def _compare_sizes(recipe: Path, sizes: list[int], *, json: bool) -> int:
    from umsicht.cli.walks import open_walk
    from umsicht.corpus import documents
    from umsicht.model import derive
    from umsicht.pipeline import stages
    from umsicht.plan import model_cost
    from umsicht.tokenizer.report import take
    from umsicht.tokenizer.sizes import compare_sizes, recommend

    walk = open_walk(recipe, out=None, overrides=[], waive=[], because="")
    if json:
        walk.progress = QUIET
    corpus = stages.corpus(walk)
    config = derive(walk.recipe.model, walk.recipe.tokenizer.vocab_size)

    def read(split: Literal["train", "val"]) -> Iterator[Sample]:
        return (Sample(one.text, one.language, one.domain) for one in documents(corpus, split))

    figures = compare_sizes(
        walk.recipe.tokenizer,
        lambda: read("train"),
        take(read("val")),
        sizes,
        d_model=config.d_model,
        body_parameters=model_cost(config).body_parameters,
        tied=config.tied,
    )
    best = recommend(figures)
    if json:
        print_json({"sizes": [figure.to_dict() for figure in figures], "recommended": best})
        return 0
    rows = [
        (
            f.vocab_size,
            f"{f.fertility.bytes_per_token:.3f}",
            f"{f.fertility.tokens_per_word:.2f}",
            f"{100 * f.embedding_share:.0f} %",
        )
        for f in figures
    ]
    columns = ("n_tokens", "bytes_per_token", "tokens_per_word", "embedding_share")
    print_table([t(f"tokenizer.row.{name}") for name in columns], rows, title=t("tokenizer.sizes_title"))
    print(t("tokenizer.recommended", size=best))
    return 0


def read_text(paths: Sequence[Path]) -> Iterator[Sample]:
    """Documents of files and folders; JSONL lines may name their language and domain. Raises UserError for what cannot be read."""
    import orjson

    for path in paths:
        files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
        for file in files:
            if file.suffix in (".txt", ".md", ".py", ".rst"):
                try:
                    yield Sample(file.read_text(encoding="utf-8"), "und", file.suffix[1:])
                except UnicodeDecodeError as error:
                    raise UserError(
                        t("tokenizer.not_utf8", file=file), fix=t("tokenizer.not_utf8_fix")
                    ) from error
            elif file.suffix == ".jsonl":
                for number, line in enumerate(file.read_bytes().splitlines(), 1):
                    try:
                        row = orjson.loads(line)
                        yield Sample(
                            str(row["text"]),
                            str(row.get("language", "und")),
                            str(row.get("domain", file.stem)),
                        )
                    except (orjson.JSONDecodeError, KeyError, AttributeError, TypeError) as error:
                        raise UserError(
                            t("tokenizer.text_line"),
                            where=f"{file}:{number}",
                            fix=t("tokenizer.text_line_fix"),
                        ) from error


def _show(said: Mapping[str, Any], where: str, *, json: bool) -> int:
    findings = [Finding.from_dict(plain) for plain in said.get("findings", ())]
    failed = any(finding.grade == "stop" for finding in findings)
    if json:
        print_json(said)
        return int(failed)
    if "sample" in said:
        _table(
            "sample",
            ("slice", "available", "taken", "share"),
            [
                (
                    name,
                    human(one["available_bytes"], "B"),
                    human(one["taken_bytes"], "B"),
                    f"{100 * one['share']:.1f} %",
                )
                for name, one in said["sample"]["slices"].items()
            ],
        )
    if said.get("fertility"):
        ratios = ("tokens_per_word", "bytes_per_token", "tokens_per_byte")
        _table(
            "fertility",
            ("slice", "tokens", *ratios),
            [
                (name, human(one["tokens"]), *(one[ratio] or "—" for ratio in ratios))
                for name, one in said["fertility"].items()
            ],
        )
    if said.get("parallel"):
        rows = [(name, one["tokens"], f"{one['ratio']:.2f}") for name, one in said["parallel"].items()]
        _table("parallel", ("language", "tokens", "ratio"), rows)
    inside = said.get("vocabulary")
    if inside:
        print(t("tokenizer.inside", n=inside["n_tokens"], bytes=inside["mean_bytes"], junk=inside["n_junk"]))
        print(t("tokenizer.longest", tokens=" ".join(inside["longest"][:8])))
    for finding in findings:
        print_finding(finding)
    print(where)
    return int(failed)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print_table(
        [t(f"tokenizer.column.{name}") for name in columns], rows, title=t(f"tokenizer.{title}_title")
    )
