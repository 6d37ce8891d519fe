"""What no number of pairs can show is refused before anything is reckoned."""

from __future__ import annotations

import pytest

from umsicht.cli.rate import plan_
from umsicht.findings import UserError


@pytest.mark.parametrize(
    ("wish", "option"),
    [
        ({"preference": 0.5}, "--preference"),
        ({"preference": 0.65, "power": 1.0}, "--power"),
        ({"pairs": 50, "ties": 2.0}, "--ties"),
    ],
)
def test_impossible_plans_name_their_option(wish: dict[str, float], option: str) -> None:
    with pytest.raises(UserError, match=option):
        plan_(**wish)


def test_a_possible_plan_says_how_many_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    assert plan_(preference=0.75, ties=0.0) == 0
    assert "75/25" in capsys.readouterr().out
