"""Verdicts on curves of really trained models whose state is known because it was made (`bench/curves`)."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import orjson
import pytest
from bench.curves.__main__ import RECORDS, curves_of, rows_of

from umsicht.diagnose import diagnose, findings_of, judge
from umsicht.diagnose.curves import Curves
from umsicht.diagnose.record_reader import from_columns, from_metrics
from umsicht.diagnose.series import Series
from umsicht.findings import render
from umsicht.record.columns import read_columns
from umsicht.record.metrics import read_metrics
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
    "few-bytes-s10": "overfitting",
    "padding-rows-s10": "level-shift-down",
    "lr-too-small-s10": "both-high",
    "targets-shuffled-s10": "both-high",
    "updates-stop-s10": "plateau",
    "sorted-uneven-s20": "saw-tooth",  # the record ends before its third epoch
    "sorted-epochs-s30": "saw-tooth",  # the order repeats twice an epoch
    "healthy-two-epochs-s20": "healthy",
    "healthy-two-epochs-s30": "healthy",
}
PARTS = {"s0": "dev", "s10": "novels", "s20": "short", "s30": "scored"}


def path_of(name: str) -> Path:
    return RECORDS / PARTS[name.rpartition("-")[2]] / f"{name}.jsonl.gz"


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


def test_a_jump_at_a_new_pass_over_the_data_is_explained_by_it() -> None:
    steps = np.arange(1, 601)
    rng = np.random.default_rng(3)
    loss = 2.0 + 3.6 * np.exp(-steps / 60) + rng.normal(0, 0.05, 600) - 0.5 * (steps > 300)
    at = np.arange(50, 601, 50)
    curves = Curves(
        {
            "train/loss": Series.of("train/loss", steps, loss),
            "val/all/loss": Series.of("val/all/loss", at, 2.1 + 3.6 * np.exp(-at / 60)),
            "train/epoch": Series.of("train/epoch", steps, steps / 300),
        }
    )
    made = judge(curves)
    (jump,) = [event for event in made.events if event.kind == "level-shift-down"]
    assert abs(jump.step - 301) <= 3
    assert jump.explained_by == "epoch"
    assert (made.verdict, made.causes[0]) == ("level-shift-down", "memorised-epoch")


def test_columns_and_rows_of_one_record_give_the_same_curves(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = []
    for segment, begin, end in ((1, 1, 80), (2, 61, 120)):
        for step in range(begin, end + 1):
            row = {"step": step, "tokens": 8 * step, "time": 1e9 + step, "segment": segment}
            row |= {"train/loss": 5 / step + segment, "train/grad_norm": "NaN" if step == 70 else 0.5}
            if step % 20 == 0:
                row["val/all/loss"] = 6 / step
            lines.append(orjson.dumps(row))
    path.write_bytes(b"\n".join(lines) + b'\nnonsense\n{"step": 121, "train/l')
    fast, slow = from_columns(*read_columns(path), "x"), from_metrics(read_metrics(path), "x")
    assert set(fast.series) == set(slow.series)
    for name, series in slow.series.items():
        assert np.array_equal(fast.get(name).steps, series.steps), name
        assert np.array_equal(fast.get(name).values, series.values, equal_nan=True), name
    assert (fast.restarts, fast.rows) == (slow.restarts, slow.rows) == ((61,), 120)
    assert (fast.damage.torn, fast.damage.unreadable) == (slow.damage.torn, slow.damage.unreadable) == (1, 1)
    assert fast.damage.replaced == slow.damage.replaced == 20
