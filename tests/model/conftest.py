"""Fixtures: each family, a model away from its starting point, a few rows of ids."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from umsicht.model import Transformer

from .small import small_config, stirred


@pytest.fixture(params=["qwen3", "nanochat", "fast"])
def family(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def make() -> Callable[..., Transformer]:
    def _make(family: str, **changes: object) -> Transformer:
        return stirred(small_config(family, **changes))

    return _make


@pytest.fixture
def ids() -> torch.Tensor:
    return torch.randint(0, 120, (3, 24), generator=torch.Generator().manual_seed(5))
