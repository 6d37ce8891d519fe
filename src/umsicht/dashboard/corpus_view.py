"""A corpus report as the pages and the report show it: stages that changed something, duplicates, lengths, shares."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from umsicht.dashboard import numbers
from umsicht.dashboard.facts import Json, RunFacts, mapping, rendered
from umsicht.dashboard.svg import funnel, histogram
from umsicht.words import t

# What the near-duplicate stage counts, in the order in which it works.
NEAR = ("candidates", "likely", "verified", "dropped")


def count(value: object) -> float:
    """A number, or the documents of a mapping, or nothing."""
    if isinstance(value, Mapping):
        return count(value.get("documents"))
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0


def source_rows(report: Mapping[str, Any]) -> list[Json]:
    """A source with its stages, in the order of the report."""
    made = []
    for name, about in mapping(report.get("sources")).items():
        about = mapping(about)
        stages = [stage for stage in about.get("stages") or () if isinstance(stage, dict)]
        made.append(
            {
                "name": str(name),
                "slice": ".".join(str(about[key]) for key in ("domain", "language") if about.get(key)),
                "licence": about.get("licence"),
                "stages": {
                    str(stage.get("stage")): {
                        key: count(stage.get(key)) for key in ("documents", "bytes", "tokens")
                    }
                    for stage in stages
                },
            }
        )
    return made


def changing_stages(sources: list[Json]) -> list[str]:
    """Stages to show in the table: the first, the last, and those that took at least a thousandth of what came in."""
    totals: dict[str, float] = {}
    for source in sources:
        for name, counts in source["stages"].items():
            totals[name] = totals.get(name, 0.0) + counts["bytes"]
    names = list(totals)
    inner = [
        name
        for before, name in pairwise(names)
        if abs(totals[before] - totals[name]) > 0.001 * totals[before]
    ]
    return [name for name in names if name in inner or name in (names[0], names[-1])]


def stage_name(name: str, lang: str) -> str:
    """A stage in words, or its own name where no catalogue has it."""
    for key in (f"corpus.stage.{name}", f"dashboard.stage.{name}"):
        word = t(key, lang=lang)
        if word != key:
            return word
    return name


def stage_funnel(sources: list[Json], lang: str) -> Json:
    """All sources together, stage by stage: by tokens where every stage counts them, by bytes else."""
    totals: dict[str, dict[str, float]] = {}
    for source in sources:
        for stage, counts in source["stages"].items():
            into = totals.setdefault(stage, {"documents": 0.0, "bytes": 0.0, "tokens": 0.0})
            for key, value in counts.items():
                into[key] += value
    unit = "tokens" if totals and all(counts["tokens"] for counts in totals.values()) else "bytes"
    stages = [(stage_name(name, lang), counts[unit]) for name, counts in totals.items()]
    title = t("dashboard.data.funnel", lang=lang)
    svg = funnel(stages, title=title, lang=lang, unit="B" if unit == "bytes" else "", width=1080)
    return {"svg": svg, "unit": t(f"dashboard.data.by_{unit}", lang=lang)}


def slice_rows(report: Mapping[str, Any]) -> list[Json]:
    """Documents and bytes of each slice in training and validation, with the share of the training text."""
    made: list[Json] = []
    for name, splits in mapping(report.get("slices")).items():
        splits = mapping(splits)
        train, val = mapping(splits.get("train")), mapping(splits.get("val"))
        counted = train or ({} if val else splits)
        made.append(
            {
                "name": str(name),
                "documents": count(counted.get("documents")),
                "bytes": count(counted.get("bytes")),
                "val_bytes": count(val.get("bytes")),
            }
        )
    total = sum(item["bytes"] for item in made) or 1.0
    return sorted(
        ({**item, "share": item["bytes"] / total} for item in made), key=lambda item: -item["bytes"]
    )


def length_chart(report: Mapping[str, Any], facts: RunFacts, lang: str) -> str:
    """Documents by length in bytes, with the context length where it can be put into bytes."""
    lengths = mapping(report.get("lengths"))
    upper, documents = lengths.get("upper_bytes"), lengths.get("documents")
    if not isinstance(upper, list) or not isinstance(documents, list) or len(documents) != len(upper) + 1:
        return ""
    edges = [0.0, *map(float, upper), float(upper[-1]) * 2]
    while len(documents) > 2 and not documents[-1]:
        documents, edges = documents[:-1], edges[:-1]
    context = context_bytes(facts)
    return histogram(
        edges,
        [float(n) for n in documents],
        title=t("dashboard.data.lengths", lang=lang),
        lang=lang,
        x_label=t("dashboard.data.lengths.axis", lang=lang),
        line_at=context,
        line_label=t(
            "dashboard.data.context", lang=lang, tokens=mapping(facts.recipe.get("model")).get("seq_len", "")
        )
        if context
        else "",
        width=1080,
        show=lambda value: numbers.size(value, lang),
    )


def context_bytes(facts: RunFacts) -> float | None:
    """The context length in bytes of this corpus: sequence length × bytes per token of the training tokens."""
    found = facts.artifact("tokens")
    train = mapping(found[2].get("train")) if found else {}
    seq_len = mapping(facts.recipe.get("model")).get("seq_len")
    tokens, size = count(train.get("tokens")), count(train.get("bytes"))
    return float(seq_len) * size / tokens if isinstance(seq_len, int) and tokens and size else None


def reasons(report: Mapping[str, Any], lang: str) -> list[Json]:
    """Why documents were dropped, the most frequent reason first."""
    listed = [item for item in report.get("reasons") or () if isinstance(item, dict)]
    made = [
        {
            "stage": str(item.get("stage", "")),
            "stage_name": stage_name(str(item.get("stage", "")), lang),
            "reason": str(item.get("reason", "")),
            "documents": count(item.get("documents")),
        }
        for item in listed
    ]
    return sorted(made, key=lambda item: -float(item["documents"]))


def duplicates(report: Mapping[str, Any]) -> Json:
    """Near-duplicate clusters, lines that were cut, and what was kept out because it stands in a test set."""
    near, protected = mapping(report.get("near")), mapping(report.get("protected"))
    return {
        "near": {key: count(near[key]) for key in NEAR if isinstance(near.get(key), (int, float))},
        "clusters": [item for item in report.get("clusters") or () if isinstance(item, dict)][:8],
        "lines": [
            {
                "line": str(item.get("line", "")),
                "times": count(item.get("times")),
                "source": str(item.get("source", "")),
            }
            for item in report.get("boilerplate") or ()
            if isinstance(item, dict)
        ][:12],
        "protected": {str(key): count(value) for key, value in mapping(protected.get("documents")).items()},
        "protected_examples": [
            str(item) if not isinstance(item, dict) else " · ".join(map(str, item.values()))
            for item in protected.get("examples") or ()
        ][:8],
    }


def shares(facts: RunFacts) -> list[Json]:
    """Planned against real shares of the training tokens, by what the mix names (source, slice, domain or language)."""
    found = facts.artifact("tokens")
    train = mapping(found[2].get("train")) if found else {}
    mix = mapping(mapping(facts.recipe.get("tokens")).get("mix"))
    by = str(mix.get("by") or "source")
    planned = mapping(mix.get("shares"))
    counted: dict[str, float] = {}
    for name, counts in mapping(train.get("sources" if by == "source" else "slices")).items():
        domain, _, language = name.partition(".")
        key = {"domain": domain, "language": language}.get(by, name)
        counted[key] = counted.get(key, 0.0) + count(mapping(counts).get("tokens"))
    total, wanted = sum(counted.values()) or 1.0, sum(count(value) for value in planned.values()) or 1.0
    made = [
        {
            "name": name,
            "tokens": counted.get(name, 0.0),
            "held": counted.get(name, 0.0) / total,
            "planned": count(planned[name]) / wanted if name in planned else None,
        }
        for name in {**counted, **planned}
    ]
    return sorted(made, key=lambda item: -float(item["tokens"] or 0))


def findings_in(report: Mapping[str, Any], lang: str) -> list[Json]:
    """The findings that a stage wrote into its report, in words."""
    made = []
    for item in report.get("findings") or ():
        words = rendered(item, lang) if isinstance(item, dict) else None
        if words is not None:
            examples = tuple(map(str, item.get("examples") or ()))
            made.append(
                {
                    "words": words,
                    "count": 1,
                    "waiver": None,
                    "location": item.get("location", ""),
                    "examples": examples,
                }
            )
    return made


def fertility_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row a slice or language; `ratio` compares tokens a word with the cheapest row."""
    made = []
    for name, figures in mapping(report.get("fertility")).items():
        figures = mapping(figures)
        made.append(
            {
                "name": name,
                **{
                    key: figures.get(key) for key in ("tokens_per_word", "bytes_per_token", "tokens", "words")
                },
            }
        )
    known = [
        float(row["tokens_per_word"]) for row in made if isinstance(row["tokens_per_word"], (int, float))
    ]
    cheapest = min(known, default=None)
    for row in made:
        value = row["tokens_per_word"]
        row["ratio"] = float(value) / cheapest if cheapest and isinstance(value, (int, float)) else None
    return sorted(made, key=lambda row: row["ratio"] or 0)
