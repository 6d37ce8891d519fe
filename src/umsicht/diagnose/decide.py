"""Ask the rules in order, then ask whether the numbers they cite are really all there."""

from __future__ import annotations

from umsicht.diagnose.completeness import Citation, cite, holes
from umsicht.diagnose.rules import Case, Ruling, ends, lost_ground, no_updates, nonfinite, rules


def decide(case: Case) -> tuple[Ruling, tuple[str, ...]]:
    """The ruling, and what is missing (codes with the place after a colon) where it had to be "uncertain" or "too-early"."""
    facts, limits = case.facts, case.limits
    stopped = nonfinite(case) or no_updates(case)
    if stopped is not None:
        return _checked(case, stopped, grounds=False)
    if not facts.train and not facts.val:
        return Ruling("uncertain", "no-curves", ()), ("train", "val")
    if not facts.train or not facts.val:
        return _half(case)
    early = _too_early(case)
    if early is not None:
        checked, gone = _checked(case, early)
        return checked, gone or ("more-points",)
    for rule in rules():
        ruling = rule(case)
        if ruling is not None:
            return _checked(case, ruling)
    numbers = {
        "val": facts.val_end,
        "val_first": facts.val_first,
        "points": len(facts.val),
        "least": limits.min_val_points,
    }
    return Ruling("uncertain", "no-rule", tuple(ends(case)), (), numbers, "low"), ("longer",)


def _half(case: Case) -> tuple[Ruling, tuple[str, ...]]:
    """Only one of the two curves: what can be said without the other, else uncertain."""
    facts, limits = case.facts, case.limits
    if facts.train and len(facts.train) >= limits.min_train_points:
        ruling = lost_ground(case)
        if ruling is not None:
            return _checked(case, ruling)
    missing = "val" if facts.train else "train"
    citations: list[Citation] = list(ends(case))
    series = facts.train or facts.val
    if series:
        citations.append(cite(series, float(series.steps[len(series) // 2]), "middle"))
    numbers = {"end": facts.end}
    return Ruling("uncertain", f"no-{missing}", tuple(citations), (), numbers, "low"), (missing,)


def _too_early(case: Case) -> Ruling | None:
    facts, limits = case.facts, case.limits
    few = len(facts.val) < limits.min_val_points or len(facts.train) < min(
        limits.min_train_points, 3 * len(facts.val)
    )
    short = (
        facts.progress is not None
        and facts.progress < limits.early_share
        and case.curves.finished is not True
    )
    if not few and not short:
        return None
    numbers = {"val_points": len(facts.val), "train_points": len(facts.train), "progress": facts.progress}
    return Ruling(
        "too-early", "few-points" if few else "early-in-plan", tuple(ends(case)), (), numbers, "low"
    )


def _grounds(case: Case) -> list[Citation]:
    """What every verdict is weighed against, cited or not: the ends, the best stretch of training, all slices."""
    facts = case.facts
    grounds = list(ends(case))
    if facts.train:
        reach = max(5, len(facts.train) // 20) * max(facts.train.cadence, 1)
        at = facts.train_best_step
        grounds.append(cite(facts.train, at, "train_best", first=at - reach, last=at + reach))
    for series in case.curves.val_slices().values():
        if series.finite():
            grounds.append(cite(series, float(series.steps[-1]), "slice_last"))
    return grounds


def _checked(case: Case, ruling: Ruling, *, grounds: bool = True) -> tuple[Ruling, tuple[str, ...]]:
    """A ruling whose cited numbers have holes beside them becomes uncertain and names the holes."""
    gone = holes(case.curves, [*ruling.citations, *(_grounds(case) if grounds else ())])
    if not gone:
        return ruling, ()
    numbers = {
        **ruling.numbers,
        "would_be": ruling.verdict,
        "holes": len(gone),
        "metric": gone[0][0],
        "step": gone[0][1],
    }
    return (
        Ruling("uncertain", "holes", ruling.citations, ruling.causes, numbers, "low"),
        tuple(f"{name}@{step}" for name, step in gone[:10]),
    )
