"""Findings about the text of a source, made from the shares of its documents that carry a label: damage, remains of chats, pages without text, little prose,
another language than declared, licences by row, and what was taken out as repetition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from umsicht.findings import Finding
from umsicht.recipe.corpus import UNKNOWN

FEWEST = 5
"""Fewer documents are no pattern."""
DAMAGED_SHARE = 0.1
"""Of documents; documentation pages with a little HTML in them stay below."""
DAMAGE = ("broken-characters", "escaped-text", "markup-left", "encoded-data", "divided-words")
CHAT_SHARE = 0.01
CHAT = ("chatbot-phrase", "control-strings")
PAGES_SHARE = 0.05
PAGES = ("blocked-page", "placeholder")
LITTLE_SHARE = 0.5
"""Of bytes."""
LITTLE_PROSE = (
    "gopher-word-length",
    "gopher-few-letters",
    "gopher-repeated-lines",
    "gopher-repeated-runs",
    "gopher-bullets",
    "gopher-ellipses",
    "fineweb-short-lines",
    "fineweb-many-lines",
    "code-long-lines",
)
"""Rules that say what kind of text it is; few words, braces and lines wrapped as on paper say little."""
LOW_SHARE = 0.25
OTHER_SHARE = 0.2
UNFINISHED_SHARE = 0.7
WRITTEN_SHARE = 0.5
"""Of a sample: a source of glosses or titles holds a few sentences too."""
TINY_BYTES = 48
FEWEST_TINY = 100
FEWEST_SAMPLED = 10
REPEATED_SHARE = 0.5
TRACES_SHARE = 0.2
RESTRICTED = (
    "-nc",
    "-nd",
    "noncommercial",
    "non-commercial",
    "proprietary",
    "all rights reserved",
    "research only",
    "copyrighted",
)
"""Parts of licence names that forbid uses which most models are made for."""


def text_findings(report: Mapping[str, Any]) -> Iterator[Finding]:
    """All of them, source by source."""
    for name, labels in report["labels"].items():
        yield from _rules(report, name, labels)
        yield from _sampled(name, labels)
        yield from _row_licences(report, name, labels)
        yield from _traces(name, labels)
    for name, source in report["sources"].items():
        yield from _repeated(name, source)
        yield from _tiny(name, source)


def documents_at(report: Mapping[str, Any], source: str, stage: str) -> int:
    """Documents of a source that were left after a stage."""
    return _at(report["sources"][source], stage, "documents")


def _at(source: Mapping[str, Any], stage: str, what: str) -> int:
    return next((int(row[what]) for row in source["stages"] if row["stage"] == stage), 0)


def _rules(report: Mapping[str, Any], name: str, labels: Mapping[str, Any]) -> Iterator[Finding]:
    """Shares of rules. Of several that say the same, the most frequent names the finding."""
    documents = max(documents_at(report, name, "normalise"), 1)
    size = max(_at(report["sources"][name], "normalise", "bytes"), 1)
    for code, rules, least, of_bytes in (
        ("CORPUS/damaged-text", DAMAGE, DAMAGED_SHARE, False),
        ("CORPUS/chat-remains", CHAT, CHAT_SHARE, False),
        ("CORPUS/pages-without-text", PAGES, PAGES_SHARE, False),
        ("CORPUS/little-prose", LITTLE_PROSE, LITTLE_SHARE, True),
    ):
        fired = {rule: labels[f"rule:{rule}"] for rule in rules if f"rule:{rule}" in labels}
        hit = sum(counts[0] for counts in fired.values())
        share = sum(counts[1] for counts in fired.values()) / size if of_bytes else hit / documents
        if hit >= FEWEST and share > least:
            rule = max(fired, key=lambda known: (fired[known][1 if of_bytes else 0], known))
            numbers = {"source": name, "documents": hit, "share": share, "rule": rule}
            yield Finding(code, "note" if of_bytes else "warn", "corpus", name, numbers)


def _sampled(name: str, labels: Mapping[str, Any]) -> Iterator[Finding]:
    scored, low = labels.get("sample:scored", [0, 0]), labels.get("sample:low-quality", [0, 0])
    if scored[0] >= FEWEST_SAMPLED and low[0] > LOW_SHARE * scored[0]:
        numbers = {"source": name, "documents": low[0], "sampled": scored[0], "share": low[0] / scored[0]}
        yield Finding("CORPUS/low-quality-text", "warn", "corpus", name, numbers)
    others = {
        label.rpartition(":")[2]: counts
        for label, counts in labels.items()
        if label.startswith("sample:other:")
    }
    ends, unfinished = labels.get("sample:ends", [0, 0])[0], labels.get("sample:unfinished", [0, 0])[0]
    written = ends >= FEWEST_SAMPLED and ends >= WRITTEN_SHARE * labels.get("sample:language", [0, 0])[0]
    if written and unfinished > UNFINISHED_SHARE * ends:
        numbers = {"source": name, "documents": unfinished, "sampled": ends, "share": unfinished / ends}
        yield Finding("CORPUS/cut-texts", "warn", "corpus", name, numbers)
    asked, other = labels.get("sample:language", [0, 0])[0], sum(counts[0] for counts in others.values())
    if asked >= FEWEST_SAMPLED and other > OTHER_SHARE * asked:
        found = max(others, key=lambda language: (others[language][0], language))
        numbers = {
            "source": name,
            "documents": other,
            "sampled": asked,
            "share": other / asked,
            "found": found,
        }
        yield Finding("CORPUS/other-language", "warn", "corpus", name, numbers)


def _row_licences(report: Mapping[str, Any], name: str, labels: Mapping[str, Any]) -> Iterator[Finding]:
    """Licences that a field gives row by row."""
    rows = {
        label.partition(":")[2]: counts[0] for label, counts in labels.items() if label.startswith("licence:")
    }
    declared = report["sources"][name]["licence"]
    unknown = rows.get(UNKNOWN, 0)
    if unknown and declared != UNKNOWN:
        yield Finding(
            "CORPUS/unknown-licence", "warn", "corpus", name, {"source": name, "documents": unknown}
        )
    restricted = {
        licence: n for licence, n in rows.items() if any(part in licence.lower() for part in RESTRICTED)
    }
    if restricted and set(restricted) != {declared}:
        examples = tuple(f"{licence}: {n}" for licence, n in sorted(restricted.items())[:5])
        numbers = {"source": name, "documents": sum(restricted.values()), "licence": declared}
        yield Finding("CORPUS/restricted-licences", "warn", "corpus", name, numbers, examples)


def _traces(name: str, labels: Mapping[str, Any]) -> Iterator[Finding]:
    """A tone that no single document is sure to have."""
    traces, scored = labels.get("promotional-traces", [0, 0]), labels.get("scored", [0, 0])
    if traces[0] >= FEWEST and traces[1] > TRACES_SHARE * scored[1]:
        numbers = {"source": name, "documents": traces[0], "share": traces[1] / scored[1]}
        yield Finding("CORPUS/promotional-traces", "warn", "corpus", name, numbers)


def _repeated(name: str, source: Mapping[str, Any]) -> Iterator[Finding]:
    """What near-duplicates, lines and paragraphs took together."""
    before, after = _at(source, "exact", "bytes"), _at(source, "paragraphs", "bytes")
    if before and (before - after) > REPEATED_SHARE * before:
        numbers = {"source": name, "share": (before - after) / before, "left": after}
        yield Finding("CORPUS/mostly-repeated", "warn", "corpus", name, numbers)


def _tiny(name: str, source: Mapping[str, Any]) -> Iterator[Finding]:
    documents, size = _at(source, "normalise", "documents"), _at(source, "normalise", "bytes")
    if documents >= FEWEST_TINY and size < TINY_BYTES * documents:
        numbers = {"source": name, "documents": documents, "bytes": size / documents}
        yield Finding("CORPUS/tiny-documents", "warn", "corpus", name, numbers)
