"""What a scored round shows, as tables."""

from __future__ import annotations

from umsicht.cli.output import print_finding, print_table
from umsicht.ratings import Result
from umsicht.words import t


def print_result(result: Result) -> None:
    """What a scored round shows: the verdict, then what it rests on."""
    print(t(f"ratings.score.{result.decision}", better=result.better))
    if result.duels and result.decision != "refused":
        print_table(
            [
                t(f"ratings.score.{name}")
                for name in ("system", "against", "win_rate", "interval", "p", "prompts")
            ],
            [
                (d.first, d.second, f"{d.win_rate:.2f}", _interval(d.interval), f"{d.p:.3g}", d.prompts)
                for d in result.duels
            ],
        )
    if result.means and result.decision != "refused":
        print_table(
            [t(f"ratings.score.{name}") for name in ("system", "criterion", "mean", "interval")],
            [(m.system, m.criterion, f"{m.mean:.2f}", _interval(m.interval)) for m in result.means],
        )
    for what, agree in result.agreement.items():
        low, high = agree.interval or (None, None)
        print(
            t(
                "ratings.score.agreement",
                what=what,
                alpha=_two(agree.alpha),
                low=_two(low),
                high=_two(high),
                percent="—" if agree.percent is None else f"{agree.percent:.0%}",
                units=agree.units,
            )
        )
    print_table(
        [t(f"ratings.score.{name}") for name in ("rater", "controls", "repeats", "left", "seconds")],
        [
            (
                q.rater,
                f"{q.controls_right}/{q.controls}",
                f"{q.repeats_same}/{q.repeats}",
                _two(q.left_share),
                _two(q.seconds_median),
            )
            for q in result.raters
        ],
    )
    for finding in result.findings:
        print_finding(finding)


def _two(value: float | None) -> str:
    return "—" if value is None else f"{value:.2f}"


def _interval(interval: tuple[float, float] | None) -> str:
    return "—" if interval is None else f"{interval[0]:.2f}–{interval[1]:.2f}"
