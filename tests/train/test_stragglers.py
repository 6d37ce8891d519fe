"""Who is named when a job is slow: a rank, the data, the network, or nobody."""

from __future__ import annotations

import random

from umsicht.train.ranks import Ranks
from umsicht.train.stragglers import WINDOW, Stragglers, Verdict

RANKS = 4


def feed(
    watch: Stragglers, own: list[float], exchange: float = 0.02, data: float = 0.001, *, noise: float = 0.1
) -> None:
    """One step: every rank's own seconds; who is fast waits in the exchange for the slowest."""
    draw = random.Random(len(watch._rows))
    mine = [seconds * (1 + noise * draw.random()) for seconds in own]
    watch._rows.append([[s, exchange + max(mine) - s, data * (1 + draw.random())] for s in mine])


def watching() -> Stragglers:
    return Stragglers(Ranks(0, RANKS))


def verdicts(watch: Stragglers, steps: int, own: list[float], **more: float) -> list[tuple[Verdict, int]]:
    found = []
    for _ in range(steps):
        feed(watch, own, **more)
        if len(watch._rows) == WINDOW:
            found.append(watch.verdict())
    return found


def test_two_hundred_clean_steps_give_no_alarm() -> None:
    assert set(verdicts(watching(), 200, [0.2] * RANKS)) == {("none", -1)}


def test_a_rank_five_times_slower_is_named_within_twenty_steps() -> None:
    watch = watching()
    verdicts(watch, 30, [0.2] * RANKS)
    assert ("straggler", 2) in verdicts(watch, 20, [0.2, 0.2, 1.0, 0.2])
    assert verdicts(watch, WINDOW, [0.2] * RANKS)[-1] == ("none", -1)


def test_a_slow_link_is_the_network_and_no_rank() -> None:
    watch = watching()
    verdicts(watch, 30, [0.2] * RANKS)
    found = verdicts(watch, 20, [0.2] * RANKS, exchange=0.3)
    assert found[-1] == ("network", -1)
    assert not any(verdict in ("straggler", "data") for verdict, _ in found)


def test_slow_reading_is_the_data() -> None:
    watch = watching()
    verdicts(watch, 30, [0.2] * RANKS)
    assert verdicts(watch, 20, [0.2] * RANKS, data=0.4)[-1] == ("data", -1)
