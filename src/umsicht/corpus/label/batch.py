"""Labelling a batch of documents: language, rules, notices, classifier scores; and which of them go for it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from umsicht.corpus.kernels.spans import Spans, Words
from umsicht.corpus.label.classifier import Classifier, preset
from umsicht.corpus.label.heuristics import first_rule, measure_texts, rule_names
from umsicht.corpus.label.notices import has_notice
from umsicht.findings import UserError
from umsicht.recipe.corpus import ClassifierRule, FilterSettings
from umsicht.words import t

PROMOTIONAL = "promotional"


@dataclass(frozen=True)
class Labels:
    """What was said of every document of a batch, and why some go."""

    rule: list[str]
    notice: npt.NDArray[np.bool_]
    promotional: list[float | None]
    promotional_scores: npt.NDArray[np.float32]
    scores: list[str | None]
    reason: dict[int, tuple[str, str]]
    """Reason and detail by row; rows that are kept are not in it."""


def unlabelled(n: int) -> Labels:
    """Labels of documents about which nothing was asked."""
    return Labels([""] * n, np.zeros(n, bool), [None] * n, np.full(n, np.nan, np.float32), [None] * n, {})


@functools.lru_cache(maxsize=32)
def _classifier(name: str, path: str) -> Classifier:
    return preset(path or name)


def check_filters(filters: FilterSettings) -> None:
    """Raises UserError for a classifier that is not there, or that may not drop."""
    for name, rule in filters.classifiers.items():
        known = _classifier(name, rule.path)
        if rule.action == "drop" and not known.may_drop:
            worst = min((row["precision"] for row in known.measured.values()), default=0.0)
            raise UserError(
                t("corpus.classifier.imprecise.what", name=name),
                where=f"filter.classifiers.{name}.action",
                why=t("corpus.classifier.labels_only.why")
                if known.labels_only
                else t("corpus.classifier.imprecise.why", precision=worst),
                fix=t("corpus.classifier.imprecise.fix"),
            )


def label_batch(
    spans: Spans,
    words: Words,
    languages: Sequence[str],
    is_code: npt.NDArray[np.bool_],
    may_have_notice: npt.NDArray[np.bool_],
    filters: FilterSettings,
) -> Labels:
    """Label documents that share one set of filters. Scores are about prose; code gets none, and rules of its own."""
    n = len(spans)
    fired = np.full(n, -1, np.int8)
    if filters.heuristics != "off":
        fired = first_rule(measure_texts(spans, words), is_code)
    notices = may_have_notice & ~is_code
    for i in np.flatnonzero(notices).tolist():
        notices[i] = has_notice(spans.text(i))
    scores = {
        name: _scores(name, rule, spans, words, languages, is_code)
        for name, rule in filters.classifiers.items()
    }
    rules = rule_names(fired)
    reason = _reasons(languages, rules, fired, notices, scores, filters)
    promotional = scores.pop(PROMOTIONAL, np.full(n, np.nan, np.float32))
    known = ~np.isnan(promotional)
    rounded: list[float | None] = [
        score if there else None
        for score, there in zip(np.round(promotional, 4).tolist(), known.tolist(), strict=True)
    ]
    named: list[str | None] = [_as_json(scores, i) for i in range(n)] if scores else [None] * n
    return Labels(rules, notices, rounded, promotional, named, reason)


def _scores(
    name: str,
    rule: ClassifierRule,
    spans: Spans,
    words: Words,
    languages: Sequence[str],
    is_code: npt.NDArray[np.bool_],
) -> npt.NDArray[np.float32]:
    """Scores; not a number where the classifier does not know the language, and for code."""
    known = _classifier(name, rule.path)
    out = np.full(len(spans), np.nan, np.float32)
    covered = np.array([not known.languages or language in known.languages for language in languages], bool)
    chosen = np.flatnonzero(covered & ~is_code)
    out[chosen] = known.scores(spans.take(chosen), words.take(chosen))
    return out


def _reasons(
    languages: Sequence[str],
    rules: Sequence[str],
    fired: npt.NDArray[np.int8],
    notices: npt.NDArray[np.bool_],
    scores: Mapping[str, npt.NDArray[np.float32]],
    filters: FilterSettings,
) -> dict[int, tuple[str, str]]:
    """Why documents go, the first reason of each."""
    found: dict[int, tuple[str, str]] = {}
    if filters.languages:
        wanted = set(filters.languages)
        found.update((i, ("language", name)) for i, name in enumerate(languages) if name not in wanted)
    if filters.heuristics == "drop":
        for i in np.flatnonzero(fired >= 0).tolist():
            found.setdefault(i, ("heuristic", rules[i]))
    if filters.notices == "drop":
        for i in np.flatnonzero(notices).tolist():
            found.setdefault(i, ("copyright-notice", ""))
    for name, values in scores.items():
        if filters.classifiers[name].action == "drop":
            limit = counted(filters, name)
            for i in np.flatnonzero(values >= limit).tolist():
                found.setdefault(i, (name, f"score {values[i]:.2f} (threshold {limit:.2f})"))
    return found


def counted(filters: FilterSettings, name: str) -> float:
    """The score from which a document counts for a label."""
    rule = filters.classifiers[name]
    return rule.threshold if rule.threshold is not None else _classifier(name, rule.path).threshold


def _as_json(scores: Mapping[str, npt.NDArray[Any]], i: int) -> str | None:
    found = {name: round(float(values[i]), 4) for name, values in scores.items() if not np.isnan(values[i])}
    return orjson.dumps(found).decode() if found else None
