"""One evaluated base for all tests of the room; each test writes its stages beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.finetune.project import base_run, fresh

from umsicht.findings import Waiver
from umsicht.record import Run

WAIVED = [Waiver("FINETUNE/base-poor", "an untrained base on purpose: the test is about the stage")]


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return base_run(tmp_path_factory.mktemp("project"), fresh())


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return tmp_path
