"""xz figures against the xz command itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from umsicht.evaluate import compress
from umsicht.evaluate.baselines import even_shares

TEXT = Path(compress.__file__).read_bytes() * 3 + Path(pytest.__file__).read_bytes()


def test_equals_the_command() -> None:
    if shutil.which("xz") is None:
        pytest.skip("no xz command on this machine")
    made = subprocess.run(["xz", "-9", "-T1", "-c"], input=TEXT, capture_output=True, check=True).stdout
    assert compress.xz_bytes(TEXT) == len(made)


def test_forked_endings_equal_compressing_from_the_start() -> None:
    endings = [TEXT[:3_000], b"something else entirely, seen nowhere before " * 5, b""]
    base = compress.xz_bytes(TEXT)
    expected = [compress.xz_bytes(TEXT + ending) - base for ending in endings]
    assert compress.xz_extra_bytes([TEXT[:1_000], TEXT[1_000:]], endings) == expected


def test_seen_text_costs_almost_nothing() -> None:
    ending = TEXT[500:6_500]
    (extra,) = compress.xz_extra_bytes([TEXT], [ending])
    assert extra < 0.1 * compress.xz_bytes(ending)


def test_no_context_is_the_plain_size_without_the_empty_container() -> None:
    (extra,) = compress.xz_extra_bytes([], [TEXT])
    assert extra == compress.xz_bytes(TEXT) - compress.xz_bytes(b"")


def test_the_window_bounds_the_context() -> None:
    assert compress.context_limit([b"x" * 10, b"y" * 200]) == (64 << 20) - 200


def test_context_is_spread_evenly_over_slices() -> None:
    shares = even_shares({"a": 10, "b": 100, "c": 1000}, 210)
    assert shares == {"a": 1.0, "b": 1.0, "c": pytest.approx(0.1)}
    assert even_shares({"a": 10, "b": 0}, 1_000) == {"a": 1.0, "b": 0.0}
