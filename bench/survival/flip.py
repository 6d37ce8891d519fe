"""A job in which one weight breaks on one rank: `python -m bench.survival.flip RUN` supervises it, its ranks run this file too.

The exponent bits of one weight all become ones, as with a damaged memory cell: it is no number any more, and so is every product with it. Everything
else is the product's own.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from umsicht.train import View

STEP, RANK = 12, 1


def break_a_weight(view: View) -> None:
    """Set the exponent bits of the first weight of the first matrix inside a block."""
    import torch

    if view.step != STEP:
        return
    for name, parameter in view.model.named_parameters():
        if parameter.ndim == 2 and any(part.isdigit() for part in name.split(".")):
            parameter.data.view(torch.int32)[0, 0] |= 0x7FC00000
            return
    raise AssertionError("the model has no matrix inside a block")


def rank(folder: Path) -> int:
    """One rank: the product's training with one more hook."""
    from umsicht.cli.train import walk_of
    from umsicht.cli.walks import exit_code
    from umsicht.pipeline import checks
    from umsicht.pipeline.ranks import joined, material_of
    from umsicht.pipeline.training import train
    from umsicht.record import Run
    from umsicht.survive.worker import attended
    from umsicht.train import CallHook
    from umsicht.train.ranks import leave
    from umsicht.train.silent import SilentRun

    with attended():
        run = Run.open(folder)
        walk = walk_of(run, overrides=[])
        material = material_of(walk, run)
        ranks = joined(walk)
        record: Any = run if ranks.is_first else SilentRun.of(run)
        flip = CallHook("flip", break_a_weight, moment="before_step")
        hooks = [*checks.hooks(material, record), *([flip] if ranks.rank == RANK else [])]
        outcome = train(material, record, hooks, ranks)
        leave()
        return exit_code(outcome)


def main() -> int:
    """Launcher without RANK in the environment, rank with it."""
    import os

    folder = Path(sys.argv[1])
    if "RANK" in os.environ:
        return rank(folder)
    from umsicht.survive.supervisor import Conditions, Supervisor

    command = [sys.executable, "-m", "bench.survival.flip", str(folder)]
    return Supervisor(command, folder, Conditions(ranks=2), say=print).run()


if __name__ == "__main__":
    sys.exit(main())
