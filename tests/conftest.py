"""Shared by all tests: the folder of real test data, and a printed reason where it is absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The folder named by UMSICHT_TEST_DATA; the test is skipped with a reason where it is not set."""
    value = os.environ.get("UMSICHT_TEST_DATA", "")
    if not value or not Path(value).is_dir():
        pytest.skip("UMSICHT_TEST_DATA names no folder: tests on real data are skipped")
    return Path(value)
