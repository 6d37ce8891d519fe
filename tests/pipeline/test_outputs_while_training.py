"""How often outputs are drawn while a run trains."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from umsicht.pipeline.ranks import samples_while_training
from umsicht.recipe import recipe_from_text


def material(count: int, steps: int | None) -> Any:
    """What the training of a recipe with this `samples.count` starts from, as far as outputs are concerned."""
    recipe = recipe_from_text(f"name: a\npreset: tiny\nevaluate: {{samples: {{count: {count}}}}}\n", "a")
    return SimpleNamespace(walk=SimpleNamespace(recipe=recipe), planned_steps=lambda: steps)


@pytest.mark.parametrize("steps", [150, None])
def test_none_where_the_recipe_says_zero(steps: int | None) -> None:
    assert samples_while_training(material(0, steps)) is None


@pytest.mark.parametrize(("count", "steps", "between"), [(6, 150, 25), (6, 4, 1), (1, 150, 150)])
def test_evenly_over_the_run(count: int, steps: int, between: int) -> None:
    every = samples_while_training(material(count, steps))
    assert every is not None and every.steps == between


def test_by_time_where_the_length_is_not_known() -> None:
    every = samples_while_training(material(6, None))
    assert every is not None and every.seconds == 60
