"""The data report as one self-contained page: funnel, lengths, languages, what repeated, examples to read, findings. No script, no request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from umsicht.corpus.look import Question, look
from umsicht.findings import Finding, render
from umsicht.record import Artifact
from umsicht.words import language, t

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#14171a;background:#fff}
table{border-collapse:collapse;margin:1rem 0;display:block;overflow-x:auto}td,th{padding:.25rem .75rem;text-align:right;border-bottom:1px solid #ccc}
th:first-child,td:first-child{text-align:left}pre{white-space:pre-wrap;background:#f4f4f4;padding:.75rem;max-height:16rem;overflow:auto}
.stop{border-left:4px solid #d55e00}.warn{border-left:4px solid #e69f00}.note{border-left:4px solid #0072b2}.finding{padding-left:1rem;margin:1rem 0}
rect{fill:#0072b2}text{font-size:11px}
@media(prefers-color-scheme:dark){body{color:#eee;background:#14171a}pre{background:#22272c}rect{fill:#56b4e9}text{fill:#eee}}
"""
_BAR, _HEIGHT = 34, 140


def page(made: Artifact) -> str:
    """The page of one corpus artifact, in the language in force."""
    found = made.report
    body = [
        f"<h1>{escape(t('corpus.page.title', name=made.name))}</h1>",
        f"<p>{escape(made.id[:12])} · {_size(found['disk_bytes'])}</p>",
        *(_finding(Finding.from_dict(plain)) for plain in found["findings"]),
        _funnel(found),
        f"<h2>{escape(t('corpus.page.lengths'))}</h2>",
        _histogram(found["lengths"]),
        _slices(found),
        _reasons(found),
        _boilerplate(found),
        f"<h2>{escape(t('corpus.page.kept'))}</h2>",
        *_examples(made, Question(n=5)),
    ]
    for stage in ("filter", "near", "paragraphs", "protect"):
        examples = list(_examples(made, Question(rejected_by=stage, n=3)))
        if examples:
            name = t(f"corpus.stages.{stage}")
            body += [f"<h2>{escape(t('corpus.page.rejected', stage=name))}</h2>", *examples]
    return (
        f'<!doctype html><html lang="{language()}"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(made.name)}</title><style>{_STYLE}</style><body>{''.join(body)}</body></html>"
    )


def _size(number: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number:.0f} B"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    titles = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table>"


def _finding(finding: Finding) -> str:
    words = render(finding)
    causes = "".join(f"<li>{escape(cause)}</li>" for cause in words.causes)
    return (
        f'<div class="finding {finding.grade}"><strong>{escape(words.title)}</strong> <small>{escape(words.id)}</small>'
        f"<p>{escape(words.seen)} {escape(words.why)}</p><ol>{causes}</ol><p>→ {escape(words.next)}</p></div>"
    )


def _funnel(found: Mapping[str, Any]) -> str:
    stages = found["stages"]
    rows = []
    for name, source in found["sources"].items():
        by_stage = {row["stage"]: row for row in source["stages"]}
        rows.append([name, source["licence"], *(_size(by_stage[stage]["bytes"]) for stage in stages)])
    head = [
        t("corpus.cli.source"),
        t("corpus.page.licence"),
        *(t(f"corpus.stages.{stage}") for stage in stages),
    ]
    return f"<h2>{escape(t('corpus.cli.funnel'))}</h2>{_table(head, rows)}"


def _histogram(lengths: Mapping[str, Sequence[int]]) -> str:
    counts, edges = lengths["documents"], lengths["upper_bytes"]
    top = max([*counts, 1])
    labels = [*map(_size, edges), "∞"]
    bars = []
    for place, (count, label) in enumerate(zip(counts, labels, strict=True)):
        height = round(_HEIGHT * count / top)
        bars.append(
            f'<rect x="{place * _BAR + 2}" y="{_HEIGHT - height}" width="{_BAR - 4}" height="{height}"><title>'
            f"≤ {label}: {count}</title></rect>"
            f'<text x="{place * _BAR + _BAR / 2}" y="{_HEIGHT + 14}" text-anchor="middle">{label.replace(" ", "")}</text>'
        )
    width = _BAR * len(counts)
    summary = escape(t("corpus.page.lengths"))
    return f'<svg role="img" aria-label="{summary}" width="100%" viewBox="0 0 {width} {_HEIGHT + 20}">{"".join(bars)}</svg>'


def _slices(found: Mapping[str, Any]) -> str:
    rows = [
        (name, *(_size(entry.get(split, {}).get("bytes", 0)) for split in ("train", "val")))
        for name, entry in found["slices"].items()
    ]
    head = [t("corpus.cli.slice"), t("corpus.stages.train"), t("corpus.cli.validation")]
    return f"<h2>{escape(t('corpus.cli.slices'))}</h2>{_table(head, rows)}"


def _reasons(found: Mapping[str, Any]) -> str:
    rows = [(row["stage"], row["reason"], row["documents"]) for row in found["reasons"]]
    head = [t("corpus.cli.stage"), t("corpus.cli.reason"), t("corpus.cli.documents")]
    return f"<h2>{escape(t('corpus.cli.dropped'))}</h2>{_table(head, rows)}" if rows else ""


def _boilerplate(found: Mapping[str, Any]) -> str:
    rows = [(entry["source"], entry["line"], entry["times"]) for entry in found["boilerplate"][:20]]
    head = [t("corpus.cli.source"), t("corpus.page.line"), t("corpus.page.times")]
    return f"<h2>{escape(t('corpus.page.boilerplate'))}</h2>{_table(head, rows)}" if rows else ""


def _examples(made: Artifact, question: Question) -> Iterable[str]:
    for row in look(made, question):
        why = f" · {row['stage']}: {row['reason']} {row['detail']}" if row.get("stage") else ""
        head = f"{row['source']} · {row['domain']}.{row['language']} · {_size(row['bytes'])}{why}"
        yield f"<p><small>{escape(head)}<br>{escape(row['origin'])}</small></p><pre>{escape((row['text'] or '')[:1200])}</pre>"
