"""No curve, however odd, ends in a traceback; and nothing is called ill on three points."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from umsicht.diagnose import judge
from umsicht.diagnose.curves import Curves
from umsicht.diagnose.model import VERDICTS
from umsicht.diagnose.series import Series

value = st.one_of(
    st.floats(min_value=0, max_value=20),
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -1.0, 1e30, 1e-30]),
)
curve = st.lists(st.tuples(st.integers(0, 10_000), value), max_size=120)


def series(name: str, points: list[tuple[int, float]]) -> Series:
    return Series.of(name, [step for step, _ in points], [number for _, number in points])


@settings(max_examples=40, deadline=None)
@given(train=curve, val=curve, slices=curve, lr=curve)
def test_every_curve_gets_a_verdict(
    train: list[tuple[int, float]],
    val: list[tuple[int, float]],
    slices: list[tuple[int, float]],
    lr: list[tuple[int, float]],
) -> None:
    names = {
        "train/loss": train,
        "val/all/loss": val,
        "val/a.en/loss": slices,
        "val/b.de/loss": val,
        "train/lr": lr,
    }
    curves = Curves({name: series(name, points) for name, points in names.items() if points})
    made = judge(curves)
    assert made.verdict in VERDICTS
    assert made.to_dict()["verdict"] == made.verdict
    if len(curves.val.finite()) < 4 and made.verdict != "diverged":
        assert not made.ill or made.verdict in ("level-shift-up",)


@settings(max_examples=30, deadline=None)
@given(scale=st.floats(0.1, 10), seed=st.integers(0, 1000), n=st.integers(100, 600))
def test_a_steadily_falling_noisy_curve_is_never_ill(scale: float, seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    steps = np.arange(1, n + 1)
    clean = 2.5 + 8 / np.sqrt(1 + steps / 3)
    train = Series.of("train/loss", steps, clean + rng.normal(0, 0.03 * scale, n))
    at = np.arange(max(1, n // 12), n + 1, max(1, n // 12))
    val = Series.of("val/all/loss", at, clean[at - 1] + 0.05 + rng.normal(0, 0.002, len(at)))
    made = judge(Curves({"train/loss": train, "val/all/loss": val}))
    assert made.verdict in ("healthy", "uncertain"), made.summary
