"""The report of a build: the funnel of every source, slices, what broke, what repeated, examples, findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from umsicht.corpus.context import Context, Partitions
from umsicht.corpus.findings import findings_of
from umsicht.corpus.finish import HISTOGRAM
from umsicht.corpus.ledger import STAGES
from umsicht.corpus.split import slice_sizes, target_bytes

BROKEN_SHOWN = 200
LINES_SHOWN = 50


def make_report(
    context: Context,
    partitions: Partitions,
    prepared: Sequence[Mapping[str, Any]],
    finished: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Everything that `umsicht corpus report` shows, as plain JSON."""
    settings, plan, ledger = context.settings, context.plan, context.ledger
    sizes = slice_sizes(partitions.parts)
    report: dict[str, Any] = {
        "schema": 1,
        "stages": list(STAGES),
        "sources": {
            source.name: {
                "domain": source.domain,
                "language": source.language,
                "licence": source.licence,
                "package": source.package,
                "version": source.version,
                "stages": ledger.stages(source.name, STAGES),
            }
            for source in plan.sources
        },
        "slices": _slices(finished),
        "validation_target_bytes": {
            name: target_bytes(size, settings.validation) for name, size in sizes.items()
        },
        "lengths": {
            "upper_bytes": list(HISTOGRAM),
            "documents": [sum(column) for column in zip(*(r["lengths"] for r in finished), strict=True)],
        },
        "reasons": _reasons(prepared, finished),
        "broken": _broken(prepared),
        "broken_examples": [row for result in prepared for row in result["broken_shown"]][:BROKEN_SHOWN],
        "encodings": dict(sum((Counter(result["encodings"]) for result in prepared), Counter())),
        "redacted": dict(sum((Counter(result["redacted"]) for result in prepared), Counter())),
        "labels": _labels(prepared),
        "boilerplate": _boilerplate(finished),
        "protected": _protected(finished),
        "missing_packages": list(plan.missing_packages),
        "unread_files": list(plan.unread[:BROKEN_SHOWN]),
        "n_unread_files": len(plan.unread),
        "disk_bytes": plan.bytes,
        **context.notes,
    }
    report["findings"] = [finding.to_dict() for finding in findings_of(report, settings)]
    return report


def _slices(finished: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, int]]]:
    slices: dict[str, dict[str, dict[str, int]]] = {}
    for result in finished:
        for name, splits in result["slices"].items():
            for split, (documents, size) in splits.items():
                entry = slices.setdefault(name, {}).setdefault(split, {"documents": 0, "bytes": 0})
                entry["documents"] += documents
                entry["bytes"] += size
    return dict(sorted(slices.items()))


def _reasons(
    prepared: Sequence[Mapping[str, Any]], finished: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    counts: Counter[tuple[str, str]] = Counter()
    for result in [*prepared, *finished]:
        for stage, reason, n in result["reasons"]:
            counts[stage, reason] += n
    return [{"stage": stage, "reason": reason, "documents": n} for (stage, reason), n in counts.most_common()]


def _broken(prepared: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    broken: dict[str, dict[str, int]] = {}
    for result in prepared:
        for source, reason, n in result["broken"]:
            counts = broken.setdefault(source, {})
            counts[reason] = counts.get(reason, 0) + n
    return broken


def _labels(prepared: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums of what was labelled: by source and label, documents and bytes."""
    totals: dict[str, dict[str, list[int]]] = {}
    for result in prepared:
        for source, labels in result.get("labels", {}).items():
            mine = totals.setdefault(source, {})
            for label, (documents, size) in labels.items():
                entry = mine.setdefault(label, [0, 0])
                entry[0] += documents
                entry[1] += size
    return totals


def _boilerplate(finished: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    merged: dict[tuple[str, str], int] = {}
    for result in finished:
        for entry in result["boilerplate"]:
            key = (entry["source"], entry["line"])
            merged[key] = merged.get(key, 0) + entry["times"]
    ranked = sorted(merged.items(), key=lambda item: (-item[1], item[0]))[:LINES_SHOWN]
    return [{"source": source, "line": line, "times": times} for (source, line), times in ranked]


def _protected(finished: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    documents: Counter[str] = Counter()
    items: dict[str, set[str]] = {}
    examples: list[Any] = []
    for result in finished:
        found = result["protected"]
        if found:
            documents.update(found["documents"])
            for name, names in found["items"].items():
                items.setdefault(name, set()).update(names)
            examples += found["examples"]
    return {
        "documents": dict(documents),
        "items": {name: len(found) for name, found in items.items()},
        "examples": examples[:20],
    }
