"""`umsicht corpus`: build it, count it, read it, report on it; its classifiers have a file of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cyclopts

from umsicht.cli.corpus_classifier import classifier
from umsicht.cli.options import Overrides
from umsicht.cli.output import (
    TerminalProgress,
    amount,
    console,
    human,
    print_finding,
    print_json,
    print_table,
)
from umsicht.cli.projects import project_of
from umsicht.findings import Finding, UserError
from umsicht.record import Artifact
from umsicht.words import t

corpus = cyclopts.App(name="corpus", help=t("cli.verb.corpus"))
corpus.command(classifier)


@corpus.command
def build(
    recipe: Path,
    *,
    out: Path | None = None,
    set_: Overrides | None = None,
    serial: bool = False,
    address: str = "",
    partition: str = "",
    dry_run: bool = False,
    json: bool = False,
) -> int:
    """Build the recipe's corpus and show what is left of each source after every stage. Interrupted work goes on where it was.

    Parameters
    ----------
    recipe
        The recipe file.
    out
        Folder of the project; by default one named after the recipe, in the current folder.
    set_
        Override a setting: --set corpus.dedupe.near.jaccard=0.8 (as often as needed).
    serial
        Work in this process only.
    address
        Address of a running Dask scheduler, e.g. tcp://10.0.0.1:8786.
    partition
        Do only share k of n of the reading stage (k/n), for a plain job array; the last job builds without it.
    dry_run
        Print the settings and what would be read, and stop.
    json
        Print the report as JSON.
    """
    from umsicht.cli.walks import open_walk
    from umsicht.corpus import CorpusInputs
    from umsicht.corpus.sources import plan_sources
    from umsicht.corpus.stage import build as build_corpus
    from umsicht.corpus.stage import build_share

    walk = open_walk(recipe, out=out, overrides=set_ or [], waive=[], because="")
    settings = walk.recipe.corpus
    if serial or address:
        engine = settings.engine.model_copy(
            update={"executor": "dask" if address else "serial", "address": address}
        )
        settings = settings.model_copy(update={"engine": engine})
    inputs = CorpusInputs(walk.project.store, recipe.resolve().parent, walk.recipe.name)
    if dry_run:
        plan = plan_sources(settings, inputs.root)
        files = {source.name: 0 for source in plan.sources}
        for unit in plan.units:
            files[unit.source.name] += len(unit.paths)
        print_json({"settings": settings.plain(), "files": files, "bytes": plan.bytes})
        return 0
    progress = TerminalProgress()
    if partition:
        folder = build_share(settings, inputs, _share(partition), progress=progress)
        print(t("corpus.cli.share_done", share=partition, folder=folder))
        return 0
    return _show(build_corpus(settings, inputs, progress=progress), json=json)


def _share(text: str) -> tuple[int, int]:
    first, _, second = text.partition("/")
    if not (first.isdigit() and second.isdigit()):
        raise UserError(
            t("corpus.share.what", k=first or "?", n=second or "?"),
            where="--partition",
            fix=t("corpus.share.fix"),
        )
    return int(first), int(second)


@corpus.command
def report(path: Path | None = None, *, html: Path | None = None, json: bool = False) -> int:
    """The data report of a corpus: funnel, languages, lengths, what repeated, what was dropped and why.

    Parameters
    ----------
    path
        A corpus artifact or a project; by default the project around the current folder.
    html
        Also write one self-contained page to this file.
    json
        Print the report as JSON.
    """
    made = _find(path)
    if html is not None:
        from umsicht.corpus.page import page
        from umsicht.record import atomic_write

        atomic_write(html, page(made))
        print(t("corpus.cli.page", path=html))
        return 0
    return _show(made, json=json)


@corpus.command
def look(
    path: Path | None = None,
    *,
    source: str = "",
    rejected_by: str = "",
    label: str = "",
    language: str = "",
    cluster: str = "",
    n: int = 3,
    seed: int = 0,
    json: bool = False,
) -> int:
    """Read random real documents of a corpus, kept or dropped.

    Parameters
    ----------
    path
        A corpus artifact or a project; by default the project around the current folder.
    source
        Only this source.
    rejected_by
        Look among what was dropped by this stage or for this reason: read, normalise, filter, exact, near, lines, paragraphs, protect.
    label
        Only documents with this label: promotional, notice, or the name of a quality rule.
    language
        Only this language.
    cluster
        A kept document (its id or the first digits of it) and everything that was dropped for it.
    n
        How many.
    seed
        Another seed shows others.
    json
        Print JSON.
    """
    from umsicht.corpus.label.classifier import preset
    from umsicht.corpus.look import Question
    from umsicht.corpus.look import look as find

    made = _find(path)
    threshold = preset("promotional").threshold if label == "promotional" else 0.0
    found = find(made, Question(source, rejected_by, label, language, cluster, n, seed), threshold)
    if json:
        print_json(found)
        return 0
    if not found:
        print(t("corpus.cli.none"))
        return 1
    for row in found:
        _print_document(row)
    return 0


@corpus.command
def count(
    path: Path | None = None,
    *,
    tokenizer: Path | None = None,
    exact: bool = False,
    need: float | None = None,
    json: bool = False,
) -> int:
    """Usable tokens of every source after every stage, with an interval; compared with what a plan needs.

    Parameters
    ----------
    path
        A corpus artifact or a project; by default the project around the current folder.
    tokenizer
        A tokenizer artifact or tokenizer.json; by default the project's newest.
    exact
        Encode every training document instead of a sample.
    need
        Tokens that the model needs, e.g. 2e9: says whether there are enough.
    json
        Print JSON.
    """
    from umsicht.corpus.count import estimate
    from umsicht.corpus.count import exact as count_exactly
    from umsicht.tokenizer import Tokenizer

    made = _find(path)
    vocabulary = Tokenizer.load(_tokenizer(tokenizer, path))
    ledger = estimate(made, made.report, vocabulary.encode_batch)
    cache = made.path.parents[1] / "cache" / f"token-counts-{vocabulary.digest[:12]}.npy"
    counted = count_exactly(made, vocabulary.encode_batch, cache) if exact else None
    totals = counted.tokens if counted else {}
    usable = sum(totals.values()) if exact else sum(_tokens(entry, "train") for entry in ledger.values())
    if json:
        print_json({"sources": ledger, "exact": totals, "usable_tokens": usable, "needed_tokens": need})
    else:
        _print_ledger(ledger, totals)
        if counted and counted.cached:
            print(t("corpus.cli.cached", n=counted.cached, total=counted.documents))
        print(
            t(
                "corpus.cli.usable",
                tokens=amount(usable),
                disk=amount(made.report["disk_bytes"], "B"),
            )
        )
        if need is not None:
            key = "corpus.cli.enough" if usable >= need else "corpus.cli.not_enough"
            print(t(key, have=amount(usable), need=amount(need), epochs=need / max(usable, 1)))
    return 0 if need is None or usable >= need else 1


def _find(path: Path | None) -> Artifact:
    """A corpus artifact by its folder or by its project (the newest)."""
    where = path or Path.cwd()
    try:
        return Artifact.open(where)
    except FileNotFoundError:
        pass
    found = [made for made in project_of(where).store.artifacts() if made.kind == "corpus"]
    if not found:
        raise UserError(
            t("corpus.cli.no_corpus", path=where), where=str(where), fix=t("corpus.cli.no_corpus.fix")
        )
    return max(found, key=lambda made: (made.path / "manifest.json").stat().st_mtime)


def _tokenizer(given: Path | None, path: Path | None) -> Path:
    if given is not None:
        return given
    found = [made for made in project_of(path or Path.cwd()).store.artifacts() if made.kind == "tokenizer"]
    if not found:
        raise UserError(t("corpus.cli.no_tokenizer"), fix=t("corpus.cli.no_tokenizer.fix"))
    return max(found, key=lambda made: (made.path / "manifest.json").stat().st_mtime).path


def _tokens(entry: dict[str, Any], stage: str) -> int:
    return next((int(row["tokens"] or 0) for row in entry["stages"] if row["stage"] == stage), 0)


def _show(made: Artifact, *, json: bool) -> int:
    found = made.report
    findings = [Finding.from_dict(plain) for plain in found["findings"]]
    if json:
        print_json(found)
    else:
        _print_report(made, found)
        for finding in findings:
            print_finding(finding)
    return 1 if any(finding.grade == "stop" for finding in findings) else 0


def _print_report(made: Artifact, found: dict[str, Any]) -> None:
    shown = ("read", "filter", "exact", "near", "paragraphs", "train")
    rows = []
    for name, source in found["sources"].items():
        by_stage = {row["stage"]: row for row in source["stages"]}
        rows.append(
            [name, *(human(by_stage[stage]["bytes"]) for stage in shown), by_stage["train"]["documents"]]
        )
    titles = [t(f"corpus.stages.{stage}") for stage in shown]
    print_table(
        [t("corpus.cli.source"), *titles, t("corpus.cli.documents")], rows, title=t("corpus.cli.funnel")
    )
    dropped = [(row["stage"], row["reason"], row["documents"]) for row in found["reasons"]]
    if dropped:
        print_table(
            [t("corpus.cli.stage"), t("corpus.cli.reason"), t("corpus.cli.documents")],
            dropped,
            title=t("corpus.cli.dropped"),
        )
    slices = [
        (name, human(entry.get("train", {}).get("bytes", 0)), human(entry.get("val", {}).get("bytes", 0)))
        for name, entry in found["slices"].items()
    ]
    print_table(
        [t("corpus.cli.slice"), t("corpus.stages.train"), t("corpus.cli.validation")],
        slices,
        title=t("corpus.cli.slices"),
    )
    print(t("corpus.cli.where", path=made.path))


def _print_ledger(ledger: dict[str, Any], totals: dict[str, int]) -> None:
    rows = []
    for name, entry in ledger.items():
        stages = {row["stage"]: row for row in entry["stages"]}
        last = stages["train"]
        interval = f"{human(last['low'])}–{human(last['high'])}" if last["low"] is not None else "—"
        rows.append(
            (
                name,
                f"{entry['bytes_per_token']:.2f}" if entry["bytes_per_token"] else "—",
                *(
                    human(stages[stage]["tokens"] or 0)
                    for stage in ("read", "exact", "near", "paragraphs", "train")
                ),
                interval,
                human(totals[name]) if name in totals else "",
            )
        )
    titles = [t(f"corpus.stages.{stage}") for stage in ("read", "exact", "near", "paragraphs", "train")]
    print_table(
        [
            t("corpus.cli.source"),
            t("corpus.cli.bytes_per_token"),
            *titles,
            t("corpus.cli.interval"),
            t("corpus.cli.exact"),
        ],
        rows,
        title=t("corpus.cli.tokens"),
    )


def _print_document(row: dict[str, Any]) -> None:
    out = console()
    head = f"{row['source']} · {row['domain']}.{row['language']} · {amount(row['bytes'], 'B')} · {row['id'][:12]}"
    out.rule(head, align="left")
    print(row["origin"])
    if row.get("stage"):
        print(t("corpus.cli.dropped_because", stage=row["stage"], reason=row["reason"], detail=row["detail"]))
    text = row["text"] or ""
    print(text[:1500] + (" …" if len(text) > 1500 else ""))
    print()
