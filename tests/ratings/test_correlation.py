"""Does a metric follow the ratings: known orders, known answers."""

from __future__ import annotations

import numpy as np
import pytest

from umsicht.ratings.correlation import correlate, ranks, spearman


def test_ranks_share_ties() -> None:
    assert ranks([3.0, 1.0, 3.0, 2.0]).tolist() == [3.5, 1.0, 3.5, 2.0]


def test_spearman_by_hand() -> None:
    # sum of squared rank differences 4 over 5: 1 - 6 * 4 / (5 * 24)
    assert spearman([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]) == pytest.approx(0.8)
    assert spearman([1, 2, 3], [5, 5, 5]) is None


def test_a_good_metric_is_kept_and_a_lost_one_named() -> None:
    rng = np.random.default_rng(0)
    ratings = {f"run@{i}": float(i) for i in range(12)}
    metrics = {
        "val/all/bpb": {s: 3 - 0.1 * v + 0.02 * float(rng.normal()) for s, v in ratings.items()},
        "samples/distinct_2": {s: -v + float(rng.normal()) for s, v in ratings.items()},
        "samples/flat": dict.fromkeys(ratings, 1.0),
        "samples/few": {"run@1": 1.0, "run@2": 2.0},
    }
    found, findings = correlate(metrics, ratings)
    by_name = {c.metric: c for c in found}
    assert set(by_name) == {"val/all/bpb", "samples/distinct_2"}
    assert by_name["val/all/bpb"].rho > 0.9, "lower bits per byte is better, so the sign is turned"
    assert [f.location for f in findings] == ["samples/distinct_2"]
