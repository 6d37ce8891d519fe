"""Scoring a complete round: rater quality first, then the verdict; no verdict where the ratings cannot carry one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from umsicht.findings import Finding
from umsicht.ratings import agreement, intervals
from umsicht.ratings.bradley_terry import Comparison, Strength, strengths
from umsicht.ratings.round import SKIP, Round
from umsicht.record.files import atomic_json
from umsicht.record.manifest import now

SCHEMA = 1


@dataclass(frozen=True)
class Rules:
    """When ratings carry a verdict. Fixed before the answers are in; written into the result."""

    min_units: int = 20
    """Rated pairs (or outputs) with at least one answer that is not skipped."""
    min_raters: int = 2
    alpha_pairwise: float = 0.2
    """Krippendorff's alpha on which of the two texts is better. Raters who are right four times out of five reach 0.36."""
    alpha_scores: float = 0.4
    """Ordinal alpha a criterion needs before systems are ranked by it."""
    controls: float = 0.75
    """Share of its controls that each rater must get right."""
    self_agreement: float = 0.5
    """Share of its repeats that each rater must answer the same (where there are four or more)."""
    side_p: float = 0.01
    """A rater whose choices favour one side with a smaller probability than this, and by more than `side_share`, is biased."""
    side_share: float = 0.15
    significance: float = 0.05


@dataclass(frozen=True)
class RaterQuality:
    """What a rater's own answers say about the rater."""

    rater: str
    answers: int
    skipped: int
    left_share: float | None
    side_p: float
    controls_right: int
    controls: int
    repeats_same: int
    repeats: int
    seconds_median: float | None


@dataclass(frozen=True)
class Agreement:
    """Krippendorff's alpha with its bootstrap interval, and plain percent agreement, on `units` things rated by two or more."""

    level: str
    alpha: float | None
    interval: tuple[float, float] | None
    percent: float | None
    units: int


@dataclass(frozen=True)
class Duel:
    """Two systems over all prompts: `win_rate` of `first` with ties half, interval over prompts, exact sign test over prompts."""

    first: str
    second: str
    win_rate: float
    interval: tuple[float, float] | None
    p: float
    prompts: int
    wins: int
    losses: int
    ties: int


@dataclass(frozen=True)
class Means:
    """One system on one criterion: mean level and interval over prompts."""

    system: str
    criterion: str
    mean: float
    interval: tuple[float, float] | None
    outputs: int


@dataclass(frozen=True)
class Result:
    """`decision` is `prefers`, `no-difference-shown` or `refused`; `better` names the preferred system."""

    decision: str
    better: str
    raters: tuple[RaterQuality, ...]
    agreement: dict[str, Agreement]
    duels: tuple[Duel, ...] = ()
    strengths: tuple[Strength, ...] = ()
    means: tuple[Means, ...] = ()
    findings: tuple[Finding, ...] = ()
    rules: Rules = field(default_factory=Rules)

    def to_dict(self) -> dict[str, Any]:
        plain = asdict(self)
        plain["findings"] = [finding.to_dict() for finding in self.findings]
        return {"schema": SCHEMA, "created": now(), **plain}


def score(one: Round, rules: Rules = Rules()) -> Result:
    """Open the key of a complete round and say what its answers show. Writes `result.json`, which closes the round.

    Raises UserError while answers are missing or where the key is not the round's own.
    """
    key = one.read_key()["items"]
    answers = {rater: one.answers(rater) for rater in one.raters}
    result = (_pairwise if one.kind == "pairwise" else _scores)(answers, key, rules)
    atomic_json(one.folder / "result.json", result.to_dict())
    return result


# --- pairwise ------------------------------------------------------------------------------------------------------


def _pairwise(answers: Mapping[str, Mapping[str, Any]], key: Mapping[str, Any], rules: Rules) -> Result:
    quality = tuple(_quality(rater, given, key) for rater, given in answers.items())
    comparisons = _comparisons(answers, key)
    agree = _agreement_pairwise(answers, key)
    duels = tuple(_duels(comparisons))
    findings = _refusals(quality, len({c.group for c in comparisons}), rules)
    floor = agree.alpha is None or agree.alpha < rules.alpha_pairwise
    if len(answers) >= 2 and floor:
        findings.append(_low_agreement("pairwise", agree, rules.alpha_pairwise, len(answers)))
    strong = tuple(strengths(comparisons)) if comparisons else ()
    if any(f.grade == "stop" for f in findings):
        return Result("refused", "", quality, {"pairwise": agree}, duels, (), (), tuple(findings), rules)
    decision, better = _decide(strong, duels, rules)
    if decision == "no-difference-shown":
        closest = duels[0]
        shown = intervals.plan(closest.wins + closest.losses)
        numbers = {
            "prompts": closest.prompts,
            "odds": shown.odds,
            "win_rate": closest.win_rate,
            "p": closest.p,
        }
        findings.append(Finding("RATING/no-difference-shown", "note", "ratings", "", numbers))
    return Result(decision, better, quality, {"pairwise": agree}, duels, strong, (), tuple(findings), rules)


def _decide(strong: Sequence[Strength], duels: Sequence[Duel], rules: Rules) -> tuple[str, str]:
    """The strongest system is preferred where it beats each other one in the interval and in the exact test (Holm's correction)."""
    best = strong[0].system
    own = sorted((d for d in duels if best in (d.first, d.second)), key=lambda d: d.p)
    for rank, duel in enumerate(own):
        rate = duel.win_rate if duel.first == best else 1 - duel.win_rate
        low = None
        if duel.interval:
            low = duel.interval[0] if duel.first == best else 1 - duel.interval[1]
        if rate <= 0.5 or low is None or low <= 0.5 or duel.p > rules.significance / (len(own) - rank):
            return "no-difference-shown", ""
    return ("prefers", best) if own else ("no-difference-shown", "")


def _quality(rater: str, given: Mapping[str, Any], key: Mapping[str, Any]) -> RaterQuality:
    sides = Counter(str(row["answer"]) for item, row in given.items() if key[item]["role"] != "control")
    decided = sides["left"] + sides["right"]
    controls = [(item, key[item]["better"]) for item in given if key[item]["role"] == "control"]
    by_unit = {
        key[item]["unit"]: _towards(given[item], key[item])
        for item in given
        if key[item]["role"] == "regular"
    }
    again = [(key[i]["unit"], _towards(given[i], key[i])) for i in given if key[i]["role"] == "repeat"]
    again = [(unit, value) for unit, value in again if value is not None and by_unit.get(unit) is not None]
    times = [float(row["seconds"]) for row in given.values() if "seconds" in row]
    return RaterQuality(
        rater=rater,
        answers=len(given),
        skipped=sides[SKIP],
        left_share=sides["left"] / decided if decided else None,
        side_p=intervals.binomial_test(sides["left"], decided),
        controls_right=sum(str(given[item]["answer"]) == better for item, better in controls),
        controls=len(controls),
        repeats_same=sum(by_unit[unit] == value for unit, value in again),
        repeats=len(again),
        seconds_median=float(np.median(times)) if times else None,
    )


def _towards(row: Mapping[str, Any], secret: Mapping[str, Any]) -> float | None:
    """1 for the alphabetically first system, 0 for the other, 0.5 for a tie, None where skipped: the same whatever the sides."""
    answer = str(row["answer"])
    if answer == SKIP:
        return None
    if answer == "tie":
        return 0.5
    left_is_first = secret["systems"][0] == min(secret["systems"])
    return 1.0 if (answer == "left") == left_is_first else 0.0


def _comparisons(answers: Mapping[str, Mapping[str, Any]], key: Mapping[str, Any]) -> list[Comparison]:
    found = []
    for given in answers.values():
        for item, row in given.items():
            secret = key[item]
            value = _towards(row, secret) if secret["role"] == "regular" else None
            if value is not None:
                prompt = str(secret["unit"]).split("|", 1)[0]
                found.append(Comparison(min(secret["systems"]), max(secret["systems"]), value, prompt))
    return found


def _agreement_pairwise(answers: Mapping[str, Mapping[str, Any]], key: Mapping[str, Any]) -> Agreement:
    """Agreement on *which text* is better: the two texts of a pair are labelled by a coin, the same for all raters.

    Labelling them by system would call agreement chance as soon as one system is mostly preferred.
    """
    units: dict[str, list[float]] = defaultdict(list)
    for given in answers.values():
        for item, row in given.items():
            if key[item]["role"] == "regular" and (value := _towards(row, key[item])) is not None:
                flip = np.random.default_rng(list(str(key[item]["unit"]).encode())).random() < 0.5
                units[key[item]["unit"]].append(1 - value if flip else value)
    return _agreement(list(units.values()), "ordinal")


def _agreement(units: agreement.Units, level: agreement.Level) -> Agreement:
    return Agreement(
        level=level,
        alpha=agreement.alpha(units, level),
        interval=agreement.bootstrap(units, level),
        percent=agreement.percent(units),
        units=sum(len(unit) >= 2 for unit in units),
    )


def _duels(comparisons: Sequence[Comparison]) -> list[Duel]:
    groups: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for c in comparisons:
        groups[c.first, c.second][c.group].append(c.score)
    found = []
    for (first, second), by_prompt in sorted(groups.items()):
        means = [float(np.mean(scores)) for scores in by_prompt.values()]
        won, lost = sum(m > 0.5 for m in means), sum(m < 0.5 for m in means)
        found.append(
            Duel(
                first=first,
                second=second,
                win_rate=float(np.mean(means)),
                interval=agreement.cluster_interval(
                    [[m] for m in means], lambda values: float(values.mean())
                ),
                p=intervals.binomial_test(won, won + lost),
                prompts=len(means),
                wins=won,
                losses=lost,
                ties=len(means) - won - lost,
            )
        )
    return found


# --- scores --------------------------------------------------------------------------------------------------------


def _scores(answers: Mapping[str, Mapping[str, Any]], key: Mapping[str, Any], rules: Rules) -> Result:
    criteria = sorted(
        {name for given in answers.values() for row in given.values() for name in row["answer"]}
    )
    quality = tuple(_quality_scores(rater, given, key) for rater, given in answers.items())
    units = {key[i]["unit"] for given in answers.values() for i in given if key[i]["role"] == "regular"}
    findings = _refusals(quality, len(units), rules)
    agree, means = {}, []
    for name in criteria:
        values: dict[str, list[float]] = defaultdict(list)
        for given in answers.values():
            for item, row in given.items():
                level = row["answer"].get(name, SKIP)
                if key[item]["role"] == "regular" and level != SKIP:
                    values[key[item]["unit"]].append(float(level))
        agree[name] = _agreement(list(values.values()), "ordinal")
        known = agree[name].alpha
        if len(answers) >= 2 and values and (known is None or known < rules.alpha_scores):
            findings.append(_low_agreement(name, agree[name], rules.alpha_scores, len(answers)))
        means += _means(name, values)
    refused = [f for f in findings if f.grade == "stop" and f.id != "RATING/low-agreement"]
    trusted = [n for n in criteria if (agree[n].alpha or 0.0) >= rules.alpha_scores]
    if refused or not trusted:
        return Result("refused", "", quality, agree, (), (), tuple(means), tuple(findings), rules)
    decision, better = _decide_scores([m for m in means if m.criterion in trusted])
    return Result(decision, better, quality, agree, (), (), tuple(means), tuple(findings), rules)


def _quality_scores(rater: str, given: Mapping[str, Any], key: Mapping[str, Any]) -> RaterQuality:
    """A control is right where some criterion gets 1 or 2; a repeat is the same where levels differ by 1 on average at most."""
    first = {key[i]["unit"]: given[i]["answer"] for i in given if key[i]["role"] == "regular"}
    again = [(first.get(key[i]["unit"], {}), given[i]["answer"]) for i in given if key[i]["role"] == "repeat"]
    apart = []
    for one, other in again:
        both = [n for n in other if SKIP not in (other[n], one.get(n, SKIP))]
        if both:
            apart.append(sum(abs(int(one[n]) - int(other[n])) for n in both) / len(both))
    controls = [given[i]["answer"] for i in given if key[i]["role"] == "control"]
    low = sum(any(level != SKIP and int(level) <= 2 for level in answer.values()) for answer in controls)
    times = [float(row["seconds"]) for row in given.values() if "seconds" in row]
    skipped = sum(all(level == SKIP for level in row["answer"].values()) for row in given.values())
    return RaterQuality(
        rater, len(given), skipped, None, 1.0, low, len(controls),
        sum(difference <= 1.0 for difference in apart), len(apart), float(np.median(times)) if times else None,
    )  # fmt: skip


def _means(criterion: str, values: Mapping[str, Sequence[float]]) -> list[Means]:
    by_system: dict[str, list[float]] = defaultdict(list)
    for unit, levels in values.items():
        by_system[unit.split("|", 1)[1]].append(float(np.mean(levels)))
    return [
        Means(
            system,
            criterion,
            float(np.mean(levels)),
            agreement.cluster_interval([[v] for v in levels], lambda drawn: float(drawn.mean())),
            len(levels),
        )
        for system, levels in sorted(by_system.items())
    ]


def _decide_scores(means: Sequence[Means]) -> tuple[str, str]:
    """A system is preferred where it is nowhere clearly worse and somewhere clearly better (intervals apart) than every other one."""
    systems = sorted({m.system for m in means})
    table = {(m.system, m.criterion): m for m in means}
    criteria = sorted({m.criterion for m in means})

    def clearly_above(a: str, b: str, criterion: str) -> bool:
        one, other = table.get((a, criterion)), table.get((b, criterion))
        return bool(one and other and one.interval and other.interval and one.interval[0] > other.interval[1])

    for system in systems:
        others = [s for s in systems if s != system]
        above = all(any(clearly_above(system, o, c) for c in criteria) for o in others)
        below = any(clearly_above(o, system, c) for o in others for c in criteria)
        if others and above and not below:
            return "prefers", system
    return "no-difference-shown", ""


# --- refusals ------------------------------------------------------------------------------------------------------


def _refusals(quality: Sequence[RaterQuality], units: int, rules: Rules) -> list[Finding]:
    found = []

    def stop(slug: str, where: str, **numbers: Any) -> None:
        found.append(Finding(f"RATING/{slug}", "stop", "ratings", where, numbers))

    if units < rules.min_units:
        stop("too-few", "", units=units, needed=rules.min_units)
    if len(quality) < rules.min_raters:
        stop("one-rater", "", raters=len(quality), needed=rules.min_raters)
    for q in quality:
        if q.controls and q.controls_right / q.controls < rules.controls:
            stop("controls-failed", q.rater, rater=q.rater, right=q.controls_right, controls=q.controls)
        if q.repeats >= 4 and q.repeats_same / q.repeats < rules.self_agreement:
            stop("inconsistent", q.rater, rater=q.rater, same=q.repeats_same, repeats=q.repeats)
        share = q.left_share
        if share is not None and q.side_p < rules.side_p and abs(share - 0.5) > rules.side_share:
            stop("side-bias", q.rater, rater=q.rater, left=share, p=q.side_p)
    return found


def _low_agreement(what: str, agree: Agreement, floor: float, raters: int) -> Finding:
    value = "—" if agree.alpha is None else round(agree.alpha, 3)
    numbers = {"what": what, "alpha": value, "floor": floor, "raters": raters, "units": agree.units}
    return Finding("RATING/low-agreement", "stop", "ratings", what, numbers)
