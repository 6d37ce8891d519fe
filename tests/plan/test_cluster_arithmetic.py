"""Arithmetic against closed forms, against a search for the optimum, and against simulated failures."""

import math

import numpy as np
import pytest

from umsicht.plan.cluster import DEVICES, Assumptions, cluster_plan, daly, goodput, layout, young

H100 = DEVICES["H100-SXM"]


def test_young_is_the_square_root():
    assert young(50, 10_000) == pytest.approx(1000)


@pytest.mark.parametrize(("checkpoint", "mtbf"), [(5, 3600), (30, 7200), (120, 86_400), (300, 3600)])
def test_dalys_interval_is_where_goodput_is_greatest(checkpoint, mtbf):
    best = max(np.linspace(checkpoint / 2, mtbf, 20_000), key=lambda tau: goodput(tau, checkpoint, 60, mtbf))
    found = daly(checkpoint, mtbf)
    assert goodput(found, checkpoint, 60, mtbf) == pytest.approx(
        goodput(best, checkpoint, 60, mtbf), rel=0.002
    )


def test_writing_for_half_the_time_between_failures_gives_that_time():
    assert daly(50, 100) == 100


def test_goodput_is_what_simulated_failures_leave():
    rng = np.random.default_rng(0)
    interval, checkpoint, restart, mtbf, work = 900.0, 60.0, 300.0, 5000.0, 2_000_000.0
    clock, done, failure = 0.0, 0.0, rng.exponential(mtbf)
    while done < work:
        end = clock + interval + checkpoint
        if end <= failure:
            clock, done = end, done + interval
            continue
        clock = failure
        failure = clock + rng.exponential(mtbf)
        while failure < clock + restart:
            clock = failure
            failure = clock + rng.exponential(mtbf)
        clock += restart
    assert done / clock == pytest.approx(goodput(interval, checkpoint, restart, mtbf), rel=0.02)


@pytest.mark.parametrize("devices", [8, 64, 1024])
def test_a_seventy_billion_model_is_laid_out(devices):
    laid = layout(devices, H100, 70e9, d_model=8192, n_layers=80, seq_len=4096)
    assert laid.tensor * laid.pipeline * laid.sharded == devices
    assert laid.fits == (devices > 8)
    assert laid.bytes_per_device >= 16 * 70e9 / devices


def test_a_small_model_needs_no_division_but_sharding():
    laid = layout(8, H100, 1e9, d_model=2048, n_layers=24, seq_len=2048)
    assert (laid.tensor, laid.pipeline, laid.sharded) == (1, 1, 8)
    assert laid.fits


def test_a_plan_adds_up():
    made = cluster_plan(
        1024,
        H100,
        parameters=70e9,
        flops_per_token=6 * 70e9,
        tokens=1.4e12,
        d_model=8192,
        n_layers=80,
        seq_len=4096,
    )
    pure_s = 6 * 70e9 * 1.4e12 / (1024 * 989e12 * 0.4)
    assert made.days_without_failures == pytest.approx(pure_s / 86_400)
    assert made.failures_per_day == pytest.approx(1024 * 24 / 50_000)
    assert 0.5 < made.goodput < 1
    assert made.days == pytest.approx(made.days_without_failures / made.goodput)
    assert made.device_hours == pytest.approx(made.days * 24 * 1024)


def test_more_failures_leave_less():
    shares = []
    for hours in (100_000.0, 20_000.0, 5_000.0):
        assumed = Assumptions(mtbf_device_hours=hours)
        made = cluster_plan(
            512,
            H100,
            parameters=7e9,
            flops_per_token=42e9,
            tokens=1e12,
            d_model=4096,
            n_layers=32,
            seq_len=4096,
            assumed=assumed,
        )
        shares.append(made.goodput)
    assert shares == sorted(shares, reverse=True)
    assert not math.isclose(shares[0], shares[-1], rel_tol=0.01)
