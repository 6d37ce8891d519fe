"""A rank without torch: beats as a real one does, waits for its neighbours at every step, keeps a checkpoint. Started by the supervisor's tests.

Usage: toy_rank.py FOLDER STEPS [key=value …]; keys: pace (seconds a step), fail=STEP (raise there, every time), die=STEP (SIGKILL itself there, once),
hang=STEP (loop there for ever, once), hold=STEP (every rank waits there until the file FOLDER/go is there), code=N (exit code at the end).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from umsicht.record import atomic_write
from umsicht.survive import pulse
from umsicht.survive.worker import attended

EVERY = 5


def main() -> int:
    folder, steps = Path(sys.argv[1]), int(sys.argv[2])
    options = dict(word.split("=") for word in sys.argv[3:])
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    start = os.environ["TORCHELASTIC_RESTART_COUNT"]
    stop: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, lambda n, _: stop.append(n))
    checkpoint = folder / "checkpoint"
    begun = int(checkpoint.read_text()) if checkpoint.exists() else 0
    pulse.resumed(begun)
    meet = folder / f"meet-{start}"
    meet.mkdir(exist_ok=True)
    for step in range(begun + 1, steps + 1):
        pulse.begin(step)
        pulse.at("compute")
        time.sleep(float(options.get("pace", "0.01")))
        while options.get("hold") == str(step) and not (folder / "go").exists():
            pulse.at("compute")
            time.sleep(0.01)
        strike(folder, options, step, rank)
        stopping = agreed(meet, rank, world, step, bool(stop))
        if rank == 0:
            with (folder / "log").open("a") as log:
                log.write(f"{start} {step} {world}\n")
            if step % EVERY == 0 or stopping or step == steps:
                pulse.at("save")
                atomic_write(checkpoint, str(step))
        pulse.done(step)
        if stopping:
            return 130 if signal.SIGINT in stop else 75
    return int(options.get("code", "0"))


def strike(folder: Path, options: dict[str, str], step: int, rank: int) -> None:
    """The fault that was ordered for this step of this rank (the last one)."""
    if rank != int(os.environ["WORLD_SIZE"]) - 1:
        return
    if options.get("fail") == str(step):
        raise ArithmeticError(f"step {step} cannot be computed")
    for name in ("die", "hang"):
        done = folder / f"{name}-done"
        if options.get(name) == str(step) and not done.exists():
            done.touch()
            if name == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            while True:
                time.sleep(0.01)


def agreed(meet: Path, rank: int, world: int, step: int, stop: bool) -> bool:
    """Wait for all ranks at this step; True where any was asked to stop."""
    before = pulse.at("communicate")
    atomic_write(meet / f"{step}-{rank}", "stop" if stop else "go")
    others = [meet / f"{step}-{other}" for other in range(world)]
    while not all(path.exists() for path in others):
        time.sleep(0.001)
    pulse.at(before)
    return any(path.read_text() == "stop" for path in others)


if __name__ == "__main__":
    with attended():
        code = main()
    sys.exit(code)
