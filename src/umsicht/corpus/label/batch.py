"""Labelling a batch of documents: language, rules, notices, classifier scores; and which of them go for it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from umsicht.corpus.kernels.spans import Spans, spans_from
from umsicht.corpus.label.classifier import Classifier, preset
from umsicht.corpus.label.heuristics import first_rule, measure_texts, rule_names
from umsicht.corpus.label.notices import has_notice
from umsicht.findings import UserError
from umsicht.recipe.corpus import ClassifierRule, FilterSettings
from umsicht.words import t

PROMOTIONAL = "promotional"


@dataclass(frozen=True)
class Labels:
    """What was said of every document of a batch, and why some go (an empty reason keeps)."""

    rule: list[str]
    notice: list[bool]
    promotional: list[float | None]
    scores: list[str | None]
    reason: list[tuple[str, str]]


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
                why=t("corpus.classifier.imprecise.why", precision=f"{worst:.2f}"),
                fix=t("corpus.classifier.imprecise.fix"),
            )


def label_batch(
    texts: Sequence[str],
    languages: Sequence[str],
    is_code: npt.NDArray[np.bool_],
    filters: FilterSettings,
) -> Labels:
    """Label documents that share one set of filters. Rules and scores are about prose; code gets none."""
    n = len(texts)
    spans = spans_from(list(texts))
    reason = [("", "")] * n
    rules = [""] * n
    if filters.heuristics != "off":
        fired = first_rule(measure_texts(spans))
        fired[is_code] = -1
        rules = rule_names(fired)
    notices = [not code and has_notice(text) for text, code in zip(texts, is_code.tolist(), strict=True)]
    scores = {
        name: _scores(name, rule, spans, languages, is_code) for name, rule in filters.classifiers.items()
    }
    for i in range(n):
        reason[i] = _reason(i, languages[i], rules[i], notices[i], scores, filters)
    promotional = scores.pop(PROMOTIONAL, None)
    return Labels(
        rules,
        notices,
        _optional(promotional, n),
        [_as_json(scores, i) for i in range(n)],
        reason,
    )


def _scores(
    name: str, rule: ClassifierRule, spans: Spans, languages: Sequence[str], is_code: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float32]:
    """Scores; not a number where the classifier does not know the language, and for code."""
    known = _classifier(name, rule.path)
    out = np.full(len(spans), np.nan, np.float32)
    covered = np.array([not known.languages or language in known.languages for language in languages], bool)
    chosen = np.flatnonzero(covered & ~is_code)
    out[chosen] = known.scores(spans.take(chosen))
    return out


def _reason(
    i: int,
    language: str,
    rule: str,
    notice: bool,
    scores: Mapping[str, npt.NDArray[np.float32]],
    filters: FilterSettings,
) -> tuple[str, str]:
    if filters.languages and language not in filters.languages:
        return "language", language
    if rule and filters.heuristics == "drop":
        return "heuristic", rule
    if notice and filters.notices == "drop":
        return "copyright-notice", ""
    for name, values in scores.items():
        wanted = filters.classifiers[name]
        if wanted.action == "drop":
            threshold = wanted.threshold
            if threshold is None:
                threshold = _classifier(name, wanted.path).threshold
            if values[i] >= threshold:
                return name, f"score {values[i]:.2f} (threshold {threshold:.2f})"
    return "", ""


def counted(filters: FilterSettings, name: str) -> float:
    """The score from which a document counts for a label."""
    rule = filters.classifiers[name]
    return rule.threshold if rule.threshold is not None else _classifier(name, rule.path).threshold


def _optional(values: npt.NDArray[np.float32] | None, n: int) -> list[float | None]:
    if values is None:
        return [None] * n
    return [None if np.isnan(value) else round(float(value), 4) for value in values]


def _as_json(scores: Mapping[str, npt.NDArray[Any]], i: int) -> str | None:
    found = {name: round(float(values[i]), 4) for name, values in scores.items() if not np.isnan(values[i])}
    return orjson.dumps(found).decode() if found else None
