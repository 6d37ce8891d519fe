"""Shared by all tests: the folder of real test data (a printed reason where it is absent), and functions of torch that nobody may keep replaced."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.nn import functional

REAL = [
    (owner, name, getattr(owner, name))
    for owner, name in (
        (torch, "dropout"),
        (functional, "dropout"),
        (functional, "scaled_dot_product_attention"),
        (functional, "cross_entropy"),
    )
]


@pytest.fixture(autouse=True)
def functions_of_torch_are_given_back() -> Iterator[None]:
    """Guards borrow functions of torch. A dropout that stayed replaced would be off for the training that follows in the same process."""
    yield
    kept = [name for owner, name, real in REAL if getattr(owner, name) is not real]
    for owner, name, real in REAL:
        setattr(owner, name, real)
    assert not kept


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The folder named by UMSICHT_TEST_DATA; the test is skipped with a reason where it is not set."""
    value = os.environ.get("UMSICHT_TEST_DATA", "")
    if not value or not Path(value).is_dir():
        pytest.skip("UMSICHT_TEST_DATA names no folder: tests on real data are skipped")
    return Path(value)
