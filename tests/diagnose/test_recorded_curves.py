"""Verdicts on curves of really trained models whose state is known because it was made (`bench/curves`)."""

from __future__ import annotations

import time
from pathlib import Path

import orjson
import pytest
from bench.curves.__main__ import RECORDS, curves_of, rows_of

from umsicht.diagnose import diagnose, findings_of
from umsicht.findings import render
from umsicht.words import speaking

EXPECTED = {
    "healthy-plain-s0": "healthy",
    "healthy-bad-batch-s0": "healthy",
    "healthy-lr-bump-s0": "healthy",
    "healthy-restart-s0": "healthy",
    "healthy-sparse-log-s0": "healthy",
    "healthy-two-epochs-s0": "healthy",
    "lr-too-small-s0": "both-high",
    "updates-lost-s0": "both-high",
    "targets-shuffled-s0": "both-high",
    "few-bytes-constant-s0": "overfitting",
    "shift-zero-s0": "too-good",
    "no-causal-mask-s0": "too-good",
    "sgd-nan-s0": "diverged",
    "lr-blow-up-s0": "diverged",
    "updates-stop-s0": "plateau",
    "garbage-many-s0": "level-shift-up",
    "padding-many-s0": "level-shift-down",
    "sorted-uneven-s0": "saw-tooth",
    "domain-repeats-s0": "domain-divergence",
}


def path_of(name: str) -> Path:
    return RECORDS / "dev" / f"{name}.jsonl.gz"


@pytest.mark.parametrize(("name", "verdict"), EXPECTED.items())
def test_verdict_of_a_made_state(name: str, verdict: str) -> None:
    made = curves_of(rows_of(path_of(name)), name)
    assert made.verdict == verdict
    assert len(made.evidence) >= 3
    assert made.next_steps
    rows = rows_of(path_of(name))
    for item in made.evidence:
        values = [row[item.metric] for row in rows if row["step"] == item.step and item.metric in row]
        assert any(value == item.value or value == "NaN" for value in values), item


@pytest.mark.parametrize(
    "name", ["healthy-plain-s0", "few-bytes-constant-s0", "garbage-many-s0", "sgd-nan-s0"]
)
def test_without_a_cited_number_the_verdict_is_uncertain(name: str) -> None:
    rows = rows_of(path_of(name))
    made = curves_of(rows, name)
    for item in made.evidence:
        fewer = [
            {k: v for k, v in row.items() if not (row["step"] == item.step and k == item.metric)}
            for row in rows
        ]
        left = curves_of(fewer, name)
        assert left.verdict == "uncertain", item
        assert left.missing


def test_what_was_planted_is_found_where_it_was_planted() -> None:
    bad = curves_of(rows_of(path_of("healthy-bad-batch-s0")), "x")
    (spike,) = [event for event in bad.events if event.kind == "spike"]
    assert (spike.step, spike.recovered) == (253, True)
    bump = curves_of(rows_of(path_of("healthy-lr-bump-s0")), "x")
    (event,) = [event for event in bump.events if event.kind == "lr-bump"]
    assert event.step == 211
    assert event.numbers["factor"] == pytest.approx(5.0)
    restart = curves_of(rows_of(path_of("healthy-restart-s0")), "x")
    assert [event.step for event in restart.events if event.kind == "restart"] == [211]


def test_a_run_folder_is_diagnosed_in_two_languages_and_under_two_seconds(tmp_path: Path) -> None:
    rows = rows_of(path_of("few-bytes-constant-s0"))
    (tmp_path / "metrics.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    began = time.process_time()
    made = diagnose(tmp_path)
    assert time.process_time() - began < 2.0
    assert "rose" in made.summary
    with speaking("de"):
        assert "stieg" in diagnose(tmp_path).summary
    (finding,) = findings_of(made)
    assert (finding.id, finding.grade) == ("CURVE/overfitting", "warn")
    for language in ("en", "de"):
        words = render(finding, language)
        assert words.title != finding.id
        assert words.causes
    assert orjson.dumps(made.to_dict())


def test_too_few_points_are_too_early_and_a_lone_curve_is_uncertain(tmp_path: Path) -> None:
    rows = [row for row in rows_of(path_of("healthy-plain-s0")) if row["step"] <= 100]
    assert curves_of(rows, "x").verdict == "too-early"
    alone = [
        {k: v for k, v in row.items() if not k.startswith("val/")}
        for row in rows_of(path_of("healthy-plain-s0"))
    ]
    made = curves_of(alone, "x")
    assert (made.verdict, made.missing) == ("uncertain", ("val",))


def test_the_gap_tells_repeats_from_a_difference_in_kind() -> None:
    few = curves_of(rows_of(path_of("few-bytes-constant-s0")), "x").gap
    plain = curves_of(rows_of(path_of("healthy-plain-s0")), "x").gap
    assert few is not None
    assert plain is not None
    assert (few.like_for_like, plain.like_for_like) == (False, True)
    assert few.reading == "repeats"
    assert plain.reading in ("small", "shift", "negative")
    assert few.share > 3 * plain.share
