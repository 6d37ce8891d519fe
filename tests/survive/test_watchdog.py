"""Who hangs, told from beats alone on a clock of the watcher's own."""

from __future__ import annotations

from umsicht.survive.pulse import Beat, Phase
from umsicht.survive.watchdog import Watchdog


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def beat(ticks: int, beats: int, step: int = 7, phase: Phase = "compute") -> Beat:
    return Beat(ticks=ticks, beats=beats, step=step, phase=phase)


def looked(
    dog: Watchdog, clock: Clock, seconds: float, ranks: dict[int, tuple[bool, bool, Phase]], step: int = 7
):  # type: ignore[no-untyped-def]
    """Look every half second for a while; a rank is (ticks?, beats?, phase). Returns the first stall and when."""
    for n in range(int(seconds * 2)):
        clock.now += 0.5
        beats = {
            rank: beat(10 + n * ticks, 10 + n * beats, step, phase)
            for rank, (ticks, beats, phase) in ranks.items()
        }
        stall = dog.look(beats)
        if stall is not None:
            return stall, (n + 1) * 0.5
    return None, None


def test_all_well_is_no_stall_however_long() -> None:
    clock = Clock()
    dog = Watchdog(5.0, clock)
    assert looked(dog, clock, 600, {0: (True, True, "compute"), 1: (True, True, "communicate")})[0] is None


def test_a_frozen_process_is_named_after_the_timeout_and_before_twice_of_it() -> None:
    clock = Clock()
    dog = Watchdog(5.0, clock)
    stall, after = looked(dog, clock, 60, {0: (True, False, "communicate"), 1: (False, False, "compute")})
    assert (stall.rank, stall.kind, stall.phase) == (1, "frozen", "compute")
    assert 5.0 < after <= 10.0


def test_the_one_that_does_not_wait_is_the_one_waited_for() -> None:
    clock = Clock()
    dog = Watchdog(5.0, clock)
    waits, works = (True, False, "communicate"), (True, False, "compute")
    stall, _ = looked(dog, clock, 60, {0: waits, 1: waits, 2: works, 3: waits})  # type: ignore[dict-item]
    assert (stall.rank, stall.kind) == (2, "stuck")


def test_where_all_wait_it_is_the_network() -> None:
    clock = Clock()
    dog = Watchdog(5.0, clock)
    stall, _ = looked(dog, clock, 60, dict.fromkeys(range(4), (True, False, "communicate")))  # type: ignore[arg-type]
    assert stall.kind == "network"


def test_validation_and_writing_may_take_ten_times_as_long() -> None:
    clock = Clock()
    for phase in ("hooks", "save", "start"):
        ranks = {0: (True, False, phase), 1: (True, False, "communicate")}
        assert looked(Watchdog(5.0, clock), clock, 45, ranks)[0] is None, phase  # type: ignore[arg-type]
        stall, _ = looked(Watchdog(5.0, clock), clock, 60, ranks)  # type: ignore[arg-type]
        assert (stall.rank, stall.kind) == (0, "stuck")


def test_a_process_that_imports_may_be_silent_as_long_as_a_start_may_take() -> None:
    clock = Clock()
    ranks = {0: (False, False, "start"), 1: (True, False, "communicate")}
    assert looked(Watchdog(5.0, clock), clock, 45, ranks)[0] is None  # type: ignore[arg-type]
    stall, _ = looked(Watchdog(5.0, clock), clock, 60, ranks)  # type: ignore[arg-type]
    assert (stall.rank, stall.kind) == (0, "frozen")


def test_a_pause_of_the_watcher_itself_is_held_against_nobody() -> None:
    clock = Clock()
    dog = Watchdog(5.0, clock)
    ranks = {0: (True, True, "compute"), 1: (True, True, "compute")}
    assert looked(dog, clock, 10, ranks)[0] is None  # type: ignore[arg-type]
    clock.now += 3600.0
    assert looked(dog, clock, 4, {0: (False, False, "compute"), 1: (False, False, "compute")})[0] is None
