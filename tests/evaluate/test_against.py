"""Two evaluations compared on the same documents and rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from umsicht.evaluate.against import compare
from umsicht.evaluate.evaluation import DocumentScore, Evaluation, SliceScore
from umsicht.evaluate.protocol import Protocol
from umsicht.findings import UserError


def evaluation(shift: float, right: list[int], *, window: int = 64) -> Evaluation:
    documents = tuple(
        DocumentScore(f"d{i}", "a.en", 100.0 + i + shift * (1 + i % 3), 50, 40 + i) for i in range(12)
    )
    empty = SliceScore(0.0, 0.0, 0, 0, 0)
    task = {"task": "own", "digest": "x", "right": right}
    harness = {"task": "arc_easy", "digest": "y", "scores": [float(r) for r in right]}
    more = {"tasks": [task], "harness": [harness]}
    return Evaluation(
        1, 1, {}, Protocol("h", 0, window, 32), {"a.en": empty}, empty, {}, {}, documents, more=more
    )


def test_a_small_difference_on_every_document_is_clear_although_documents_differ_much():
    compared = compare(evaluation(0.5, [1, 1, 0, 1]), evaluation(0.0, [1, 0, 0, 1]))
    assert [d.slice for d in compared.slices] == ["a.en", "all"]
    assert all(d.is_clear and d.low > 0 and d.documents == 12 for d in compared.slices)
    same = compare(evaluation(0.0, [1]), evaluation(0.0, [1])).slices[0]
    assert same.first == same.second and (same.low, same.high) == (0.0, 0.0) and not same.is_clear


def test_tasks_are_compared_row_by_row_where_the_rows_are_the_same():
    one, other = evaluation(0.0, [1, 1, 1, 0]), evaluation(0.0, [1, 0, 0, 0])
    compared = compare(one, other)
    assert set(compared.tasks) == {"own", "lm-eval arc_easy"}
    assert compared.tasks["own"].only_first == 2 and compared.tasks["own"].p == 0.5
    changed = replace(other, more={"tasks": [{**other.more["tasks"][0], "digest": "other"}]})
    assert compare(one, changed).tasks == {}


def test_other_protocols_and_other_documents_are_refused():
    with pytest.raises(UserError, match="window"):
        compare(evaluation(0.0, [1]), evaluation(0.0, [1], window=32))
    fewer = evaluation(0.0, [1])
    with pytest.raises(UserError, match="documents"):
        compare(fewer, replace(fewer, documents=fewer.documents[:-1]))
