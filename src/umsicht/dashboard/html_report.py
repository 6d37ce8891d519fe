"""One self-contained HTML file about a run: opens from disk without a single request, in English and German, light and dark."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from umsicht import __version__
from umsicht.dashboard import corpus_view, numbers
from umsicht.dashboard.charting import figure
from umsicht.dashboard.curves import charts, with_gap
from umsicht.dashboard.facts import Json, RunFacts, diagnosis, load_json, mapping, rendered
from umsicht.dashboard.svg import Mark, tree
from umsicht.dashboard.tables import baseline_rows, sheet, tiles
from umsicht.dashboard.tail import Tail
from umsicht.dashboard.templating import render
from umsicht.dashboard.verdicts import Verdict, verdict
from umsicht.record import atomic_write
from umsicht.record.columns import Columns
from umsicht.words import LANGUAGES, language, speaking, t

SAMPLES_SHOWN = 8
WIDE, HALF = (1080, 300), (540, 240)


def report(run_folder: Path | str, out: Path | str, lang: str | None = None, redact: bool = False) -> Path:
    """Write the report of a run to `out` (a file, or a folder in which `report.html` is written); returns its path.

    Both languages are in the file; `lang` is the one shown first. `redact` leaves out everything that could be somebody's text or
    somebody's machine: paths, samples, examples, names of sources. Raises UserError where `run_folder` holds no run.
    """
    facts = RunFacts.open(Path(run_folder))
    target = Path(out)
    if target.is_dir():
        target = target / "report.html"
    columns = with_gap(Tail(facts.metrics_path).columns())
    bodies = {code: _body(facts, columns, code, redact) for code in LANGUAGES}
    static = resources.files("umsicht.dashboard") / "static"
    style = "\n".join((static / name).read_text("utf-8") for name in ("base.css", "report.css"))
    first = lang or language()
    page = render(
        "report.html", first, name=facts.name, bodies=bodies, style=style, first=first, languages=LANGUAGES
    )
    return atomic_write(target, page)


def _body(facts: RunFacts, columns: Columns, lang: str, redact: bool) -> str:
    with speaking(lang):
        shown = verdict(diagnosis(facts.folder, columns), lang)
        context: Json = {
            "name": facts.name,
            "version": __version__,
            "state": str(facts.manifest.get("state", "unknown")),
            "created": facts.manifest.get("created"),
            "redact": redact,
            "verdict": shown,
            "tiles": tiles(facts, columns, lang),
            "figures": [
                figure(
                    columns, chart, lang, events=event_marks(shown, lang), size=WIDE if place < 2 else HALF
                )
                for place, chart in enumerate(
                    charts(columns, lang, clip=clip_threshold(facts), order=facts.slices_by_size)
                )
            ],
            "baselines": baseline_rows(facts, columns),
            "samples": [] if redact else newest_samples(facts, lang),
            "corpus": corpus_part(facts, lang, redact),
            "fertility": fertility_part(facts),
            "ratings": ratings_part(facts),
            "waivers": [] if redact else sorted(facts.waivers.items()),
            "findings": finding_list(facts, lang, redact),
            "sheet": sheet(facts, columns, lang, redact=redact),
            "lineage": tree(
                _without_names(facts.lineage()) if redact else facts.lineage(),
                title=t("dashboard.report.lineage", lang=lang),
            ),
            "bad_lines": columns.bad,
        }
        body = render("report_body.html", lang, **context)
        return without_places(body, facts) if redact else body


def without_places(body: str, facts: RunFacts) -> str:
    """`body` without the folders of this machine; commands keep their form with RUN and PROJECT in their place."""
    for place, name in (
        (facts.folder, "RUN"),
        (facts.folder.parent.parent, "PROJECT"),
        (Path.home(), "HOME"),
    ):
        for written in {str(place), str(place.resolve())}:
            if len(written) > 1:
                body = body.replace(escape(written), name)
    return body


def event_marks(shown: Verdict, lang: str) -> list[Mark]:
    """The diagnosis's events that have a step and a mark of their own."""
    marks = []
    for event in shown.events:
        kind, step = str(event.get("kind") or event.get("type") or ""), event.get("step")
        if "spike" in kind and isinstance(step, (int, float)):
            marks.append(Mark(float(step), "spike", t("dashboard.mark.spike", lang=lang)))
    return marks[:40]


def clip_threshold(facts: RunFacts) -> float | None:
    """The gradient norm at which the recipe clips, if it does."""
    train = mapping(facts.recipe.get("train"))
    for source in (train, mapping(train.get("optimizer"))):
        for name in ("clip_grad_norm", "grad_clip", "clip", "clip_norm", "max_grad_norm"):
            value = source.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
                return float(value)
    return None


def corpus_part(facts: RunFacts, lang: str, redact: bool) -> Json | None:
    """Funnel and slices of the corpus; names of sources are left out where it is redacted."""
    found = facts.artifact("corpus")
    if found is None:
        return None
    sources = corpus_view.source_rows(found[2])
    names = corpus_view.changing_stages(sources)
    return {
        "funnel": corpus_view.stage_funnel(sources, lang),
        "stages": [(name, corpus_view.stage_name(name, lang)) for name in names],
        "sources": [] if redact else sources,
        "slices": corpus_view.slice_rows(found[2]),
        "lengths": corpus_view.length_chart(found[2], facts, lang),
        "reasons": corpus_view.reasons(found[2], lang),
    }


def fertility_part(facts: RunFacts) -> list[Json]:
    """What the tokenizer costs each slice."""
    found = facts.artifact("tokenizer")
    return corpus_view.fertility_rows(found[2]) if found else []


def ratings_part(facts: RunFacts) -> list[Json]:
    """Closed rounds of this run and its project: decision, agreement, win rates. Open rounds stay hidden here too."""
    places = [
        *facts.folder.glob("ratings/*/result.json"),
        *facts.folder.parent.parent.glob("ratings/*/result.json"),
    ]
    made = []
    for path in sorted(places):
        result = load_json(path)
        if result is not None:
            made.append(
                {
                    "name": path.parent.name,
                    "decision": str(result.get("decision", "")),
                    "better": str(result.get("better") or ""),
                    "duels": [d for d in result.get("duels") or () if isinstance(d, dict)]
                    if result.get("decision") != "refused"
                    else [],
                    "agreement": list(mapping(result.get("agreement")).items()),
                }
            )
    return made


@dataclass(frozen=True)
class Sample:
    """One generated text as the report shows it."""

    prompt: str
    text: str
    how: str


def newest_samples(facts: RunFacts, lang: str) -> list[Sample]:
    """Samples of the last step at which any were drawn, in the order of the record: never the nicest, always the same."""
    steps = [sample_step(row) for row in facts.samples]
    last = max(steps, default=0)
    rows = [row for row, step in zip(facts.samples, steps, strict=True) if step == last][:SAMPLES_SHOWN]
    step = f"{t('dashboard.axis.step', lang=lang)} {numbers.number(last, lang)}"
    return [
        Sample(
            str(row.get("prompt") or ""),
            str(row.get("text") or ""),
            " · ".join(filter(None, [step, how(row, lang)])),
        )
        for row in rows
    ]


def sample_step(row: Json) -> int:
    value = row.get("step", 0)
    return int(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0


def how(row: Json, lang: str) -> str:
    """How a sample was drawn, in one line: seed, temperature, language."""
    parts = []
    if row.get("seed") is not None:
        parts.append(t("dashboard.runs.seed", lang=lang, seed=row["seed"]))
    for name, label in (("temperature", "T"), ("top_p", "top-p")):
        value = row.get(name)
        if isinstance(value, (int, float)) and not (name == "top_p" and value == 1):
            parts.append(f"{label} {numbers.number(float(value), lang, 2)}")
    if row.get("language"):
        parts.append(str(row["language"]))
    return " · ".join(parts)


def finding_list(facts: RunFacts, lang: str, redact: bool) -> list[Json]:
    """The recorded findings in words, gravest first, each id once with its count."""
    order = {"stop": 0, "warn": 1, "note": 2}
    seen: dict[tuple[str, str], Json] = {}
    for record in facts.findings:
        words = rendered(record, lang)
        if words is None:
            continue
        entry = seen.setdefault(
            (words.id, words.title),
            {"words": words, "count": 0, "waiver": None, "location": "", "examples": ()},
        )
        entry["count"] += 1
        entry["waiver"] = facts.waivers.get(words.id) or record.get("because") or entry["waiver"]
        if not redact:
            entry["location"], entry["examples"] = (
                record.get("location", ""),
                tuple(record.get("examples") or ()),
            )
    return sorted(seen.values(), key=lambda entry: order.get(entry["words"].grade, 3))


def _without_names(node: Json, counter: list[int] | None = None) -> Json:
    counter = counter if counter is not None else [0]
    plain: dict[str, Any] = dict(node)
    if plain.get("kind") == "source":
        counter[0] += 1
        plain["name"] = f"source {counter[0]}"
    elif plain.get("kind") != "run":
        plain["name"] = plain.get("kind")
    plain["parents"] = [_without_names(parent, counter) for parent in node.get("parents") or ()]
    return plain
