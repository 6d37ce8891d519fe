"""Mistake 9, planted: `umsicht` with a trainer that loads the weights of a checkpoint and forgets the state of the optimizer.

python weights_only.py check RECIPE …
"""

from __future__ import annotations

import sys
from typing import Any

from umsicht.cli import main
from umsicht.train.optimizer import Optimizer


def forget(self: Optimizer, *state: Any, **named: Any) -> None:
    """What a hand-written resume does that was never tried: nothing."""


if __name__ == "__main__":
    Optimizer.load_state_tensors = forget  # type: ignore[method-assign]
    main(sys.argv[1:])
