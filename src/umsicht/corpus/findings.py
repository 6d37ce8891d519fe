"""What the corpus report calls for: findings made from its numbers alone, so that an old report can be judged anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from umsicht.corpus.findings_text import documents_at, text_findings
from umsicht.findings import Finding
from umsicht.recipe.corpus import UNKNOWN, CorpusSettings

BROKEN_SHARE = 0.01
DUPLICATE_SHARE = 0.3
PROMOTIONAL_SHARE = 0.05
NOTICE_SHARE = 0.02
TOP_LINES_SHARE = 0.05
FEWEST_TOP_LINES = 20
"""Fewer lines that come back are no pattern."""


def findings_of(report: Mapping[str, Any], settings: CorpusSettings) -> list[Finding]:
    """All findings of a corpus report, in the order of its stages."""
    return [
        *_missing(report),
        *_unread(report),
        *_broken(report),
        *_licences(report),
        *_duplicates(report),
        *_capped(report),
        *_top_lines(report),
        *_protected(report),
        *_promotional(report),
        *_notices(report),
        *text_findings(report),
        *_dominance(report, settings),
        *_validation(report),
    ]


def _missing(report: Mapping[str, Any]) -> Iterator[Finding]:
    for package in report["missing_packages"]:
        yield Finding("CORPUS/missing-package", "warn", "corpus", package, {"package": package})


def _unread(report: Mapping[str, Any]) -> Iterator[Finding]:
    if report["n_unread_files"]:
        examples = tuple(report["unread_files"][:5])
        yield Finding(
            "CORPUS/unread-files",
            "note",
            "corpus",
            examples[0],
            {"files": report["n_unread_files"]},
            examples,
        )


def _broken(report: Mapping[str, Any]) -> Iterator[Finding]:
    for source, reasons in report["broken"].items():
        broken = sum(reasons.values())
        read = documents_at(report, source, "read")
        grade = "warn" if broken > BROKEN_SHARE * (read + broken) else "note"
        examples = tuple(
            f"{row['origin']}: {row['reason']} ({row['detail']})"
            for row in report["broken_examples"]
            if row["source"] == source
        )
        yield Finding(
            "CORPUS/broken-members",
            "warn" if grade == "warn" else "note",
            "corpus",
            source,
            {"source": source, "broken": broken, "read": read},
            examples[:5],
        )


def _licences(report: Mapping[str, Any]) -> Iterator[Finding]:
    for name, source in report["sources"].items():
        if source["licence"] == UNKNOWN:
            yield Finding(
                "CORPUS/unknown-licence",
                "warn",
                "corpus",
                name,
                {"source": name, "documents": documents_at(report, name, "train")},
            )


def _duplicates(report: Mapping[str, Any]) -> Iterator[Finding]:
    for name in report["sources"]:
        before, after = documents_at(report, name, "normalise"), documents_at(report, name, "exact")
        if before and (before - after) / before > DUPLICATE_SHARE:
            numbers = {"source": name, "dropped": before - after, "share": (before - after) / before}
            yield Finding("CORPUS/many-duplicates", "warn", "corpus", name, numbers)


def _capped(report: Mapping[str, Any]) -> Iterator[Finding]:
    for name, numbers in report.get("near_capped", {}).items():
        shown = {"source": name, **numbers, "share": numbers["found"] / max(numbers["documents"], 1)}
        yield Finding("CORPUS/near-duplicate-cap", "warn", "corpus", name, shown)


def _top_lines(report: Mapping[str, Any]) -> Iterator[Finding]:
    """The hundred most frequent lines against all text of a source that stays."""
    for name, found in report.get("top_lines", {}).items():
        left = next(row["bytes"] for row in report["sources"][name]["stages"] if row["stage"] == "lines")
        if found["lines"] >= FEWEST_TOP_LINES and found["bytes"] > TOP_LINES_SHARE * left:
            numbers = {
                "source": name,
                "share": found["bytes"] / max(left, 1),
                "documents": found["examples"][0]["documents"],
            }
            examples = tuple(row["line"] for row in found["examples"][:5])
            yield Finding("CORPUS/repeated-lines", "warn", "corpus", name, numbers, examples)


def _protected(report: Mapping[str, Any]) -> Iterator[Finding]:
    found = report["protected"]
    for name, documents in found["documents"].items():
        examples = tuple(row["detail"] for row in found["examples"] if row["detail"].startswith(f"{name}#"))
        numbers = {"set": name, "documents": documents, "items": found["items"][name]}
        yield Finding("CORPUS/protected-text", "warn", "corpus", name, numbers, examples[:5])


def _promotional(report: Mapping[str, Any]) -> Iterator[Finding]:
    """By domain: the share of scored text that reads like advertising."""
    domains: dict[str, list[int]] = {}
    for name, labels in report["labels"].items():
        domain = report["sources"].get(name, {}).get("domain", name)
        counts = domains.setdefault(domain, [0, 0, 0])
        counts[0] += labels.get("promotional", [0, 0])[1]
        counts[1] += labels.get("scored", [0, 0])[1]
        counts[2] += labels.get("promotional", [0, 0])[0]
    for domain, (promotional, scored, documents) in domains.items():
        if scored and promotional / scored > PROMOTIONAL_SHARE:
            numbers = {"domain": domain, "share": promotional / scored, "documents": documents}
            yield Finding("CORPUS/promotional-tone", "warn", "corpus", domain, numbers)


def _notices(report: Mapping[str, Any]) -> Iterator[Finding]:
    for name, labels in report["labels"].items():
        documents, read = labels.get("notice", [0, 0])[0], documents_at(report, name, "normalise")
        if documents > NOTICE_SHARE * read:
            licence = report["sources"][name]["licence"]
            numbers = {"source": name, "documents": documents, "licence": licence}
            yield Finding("CORPUS/copyright-notices", "warn", "corpus", name, numbers)


def _dominance(report: Mapping[str, Any], settings: CorpusSettings) -> Iterator[Finding]:
    sizes = {
        name: next(row["bytes"] for row in source["stages"] if row["stage"] == "train")
        for name, source in report["sources"].items()
    }
    total = sum(sizes.values())
    limits = {source.name: source.largest_share for source in settings.sources}
    for name, size in sizes.items():
        limit = limits.get(name) or limits.get(name.partition(".")[0]) or 1.0
        if len(sizes) > 1 and size > limit * total:
            numbers = {"source": name, "share": size / total, "limit": limit}
            yield Finding("CORPUS/dominant-source", "warn", "corpus", name, numbers)


def _validation(report: Mapping[str, Any]) -> Iterator[Finding]:
    without = [name for name, splits in report["slices"].items() if "val" not in splits]
    if len(without) == len(report["slices"]):
        yield Finding("CORPUS/no-validation", "warn", "corpus", "", {"slices": len(without)})
    elif without:
        yield Finding(
            "CORPUS/slices-without-validation",
            "note",
            "corpus",
            without[0],
            {"slices": len(without)},
            tuple(without[:5]),
        )
