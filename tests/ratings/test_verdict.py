"""Scripted raters with known preference and known bias: the preference is found, biased raters yield no verdict."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from umsicht.findings import UserError
from umsicht.ratings import Design, Item, Output, Result, Round, create, default, match, score

Rater = Callable[[Item, random.Random], str]


def quality(text: str) -> float:
    """The scripted truth: the first word of an output says how good it is; word salad has none."""
    first, *rest = text.split()
    return float(first) if rest and rest == sorted(rest) else -9.0


def outputs(n: int, advantage: float, seed: int = 0, systems: tuple[str, ...] = ("a", "b")) -> list[Output]:
    """Texts whose quality is normal around the system's level; `advantage` is what each system has over the one before."""
    rng = random.Random(seed)
    return [
        Output(name, f"p{i}", f"Prompt {i}", f"{rng.gauss(advantage * k, 1):.3f} " + " ".join(f"w{i}{j}{name}" for j in range(8)))
        for i in range(n)
        for k, name in enumerate(systems)
    ]  # fmt: skip


def honest(noise: float) -> Rater:
    def rate(item: Item, rng: random.Random) -> str:
        difference = quality(item.left) - quality(item.right) + rng.gauss(0, noise)
        return "tie" if abs(difference) < 0.2 else ("left" if difference > 0 else "right")

    return rate


def always_left(item: Item, rng: random.Random) -> str:
    return "left"


def mostly_left(item: Item, rng: random.Random) -> str:
    return "left" if rng.random() < 0.85 else honest(0.3)(item, rng)


def coin(item: Item, rng: random.Random) -> str:
    return rng.choice(["left", "right"])


def upside_down(item: Item, rng: random.Random) -> str:
    return {"left": "right", "right": "left", "tie": "tie"}[honest(0.3)(item, rng)]


def rated(tmp_path: Path, made: list[Output], *raters: Rater, seed: int = 0) -> Round:
    names = tuple(f"r{i}" for i in range(len(raters)))
    one = create(tmp_path / f"round-{seed}", match(made), Design(raters=names, seed=seed), default())
    for name, rate in zip(names, raters, strict=True):
        rng = random.Random(f"{seed}.{name}")
        for item in one.items(name):
            one.answer(name, item.id, rate(item, rng), seconds=rng.uniform(4, 30))
    return one


def ids(result: Result) -> set[str]:
    return {finding.id for finding in result.findings}


def test_a_known_preference_is_recovered(tmp_path: Path) -> None:
    result = score(rated(tmp_path, outputs(80, 1.2), honest(0.4), honest(0.6)))
    assert (result.decision, result.better) == ("prefers", "b")
    assert result.findings == ()
    (duel,) = result.duels
    assert duel.win_rate == pytest.approx(1 - 0.80, abs=0.12), "P(N(1.2, sqrt 2) > 0) is 0.80"
    assert result.agreement["pairwise"].alpha > 0.5
    assert all(q.controls_right == q.controls for q in result.raters)
    assert result.strengths[0].system == "b"


def test_equal_systems_are_not_told_apart(tmp_path: Path) -> None:
    false_alarms = 0
    for seed in range(12):
        result = score(rated(tmp_path, outputs(40, 0.0, seed), honest(0.4), honest(0.4), seed=seed))
        assert result.decision in ("no-difference-shown", "prefers")
        false_alarms += result.decision == "prefers"
    assert false_alarms <= 2
    assert "RATING/no-difference-shown" in ids(result) or result.decision == "prefers"


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (always_left, "RATING/side-bias"),
        (mostly_left, "RATING/side-bias"),
        (coin, "RATING/low-agreement"),
        (upside_down, "RATING/controls-failed"),
    ],
)
def test_bad_raters_yield_no_verdict(tmp_path: Path, bad: Rater, expected: str) -> None:
    result = score(rated(tmp_path, outputs(80, 1.2), honest(0.4), bad))
    assert result.decision == "refused"
    assert result.better == ""
    assert result.strengths == ()
    assert expected in ids(result)


def test_all_raters_biased_alike_still_no_verdict(tmp_path: Path) -> None:
    result = score(rated(tmp_path, outputs(80, 1.2), always_left, always_left, always_left))
    assert result.decision == "refused"
    assert {"RATING/side-bias", "RATING/low-agreement"} <= ids(result)
    assert result.duels[0].win_rate == pytest.approx(0.5, abs=0.12), "balanced sides: bias favours nobody"


def test_preference_everywhere_is_no_lack_of_agreement(tmp_path: Path) -> None:
    """Everybody prefers b nearly always: by system, chance agreement would be high and alpha near zero."""
    result = score(rated(tmp_path, outputs(60, 4.0), honest(0.4), honest(0.4)))
    assert (result.decision, result.better) == ("prefers", "b")
    assert result.agreement["pairwise"].alpha > 0.9


def test_too_few_or_one_rater_is_refused(tmp_path: Path) -> None:
    few = score(rated(tmp_path, outputs(10, 3.0), honest(0.1), honest(0.1)))
    assert few.decision == "refused"
    assert "RATING/too-few" in ids(few)
    alone = score(rated(tmp_path, outputs(60, 3.0), honest(0.1), seed=1))
    assert ids(alone) == {"RATING/one-rater"}


def test_three_systems_are_ranked(tmp_path: Path) -> None:
    made = outputs(60, 1.5, systems=("a", "b", "c"))
    result = score(rated(tmp_path, made, honest(0.4), honest(0.4)))
    assert [s.system for s in result.strengths] == ["c", "b", "a"]
    assert (result.decision, result.better) == ("prefers", "c")
    assert result.strengths[0].low > result.strengths[1].high


def test_scoring_closes_the_round_and_needs_all_answers(tmp_path: Path) -> None:
    one = rated(tmp_path, outputs(30, 1.0), honest(0.4), honest(0.4))
    score(one)
    saved = orjson.loads((one.folder / "result.json").read_bytes())
    assert saved["decision"] in ("prefers", "no-difference-shown", "refused")
    assert saved["rules"]["min_units"] == 20
    with pytest.raises(UserError):
        one.answer("r0", one.items("r0")[0].id, "left")
    open_round = create(tmp_path / "open", match(outputs(5, 1.0)), Design(), default())
    with pytest.raises(UserError):
        score(open_round)


def scores_round(tmp_path: Path, advantage: float, noise: tuple[float, ...], seed: int = 0) -> Round:
    design = Design(kind="scores", raters=tuple(f"r{i}" for i in range(len(noise))), seed=seed)
    one = create(tmp_path / f"scores-{seed}", outputs(40, advantage), design, default())
    for name, wobble in zip(design.raters, noise, strict=True):
        rng = random.Random(f"{seed}.{name}")
        for item in one.items(name):
            real = quality(item.left) > -5

            def level(
                real: bool = real, item: Item = item, rng: random.Random = rng, wobble: float = wobble
            ) -> int:
                value = 2.5 + quality(item.left) + rng.gauss(0, wobble) if real else 1
                return int(min(5, max(1, round(value))))

            answer = {c.id: level() for c in one.sheet.criteria}
            one.answer(
                name, item.id, answer | {"instruction": "skip", "factual": rng.randint(1, 5) if real else 1}
            )
    return one


def test_scores_recover_the_better_system_on_the_criteria_that_raters_share(tmp_path: Path) -> None:
    result = score(scores_round(tmp_path, 1.2, (0.3, 0.3)))
    assert (result.decision, result.better) == ("prefers", "b")
    assert result.agreement["fluency"].alpha > 0.6
    assert {f.location for f in result.findings} == {"factual"}, (
        "answered at random: not used for the ranking"
    )
    means = {(m.system, m.criterion): m.mean for m in result.means}
    assert means["b", "fluency"] - means["a", "fluency"] == pytest.approx(1.2, abs=0.5)


def test_scores_of_raters_who_guess_yield_no_verdict(tmp_path: Path) -> None:
    result = score(scores_round(tmp_path, 1.2, (9.0, 9.0)))
    assert result.decision == "refused"
    assert "RATING/low-agreement" in ids(result)
