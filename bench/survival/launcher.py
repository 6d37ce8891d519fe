"""What `umsicht train --nproc-per-node` does once data are made and the gate is passed: `launcher.py RUN RANKS TIMEOUT HOSTS ADDRESS [option …]`.

The bench hurts dozens of starts; making sure each time that data and gate are in place would measure that instead.
"""

from __future__ import annotations

import sys
from pathlib import Path

from umsicht.survive.launch import supervise


def say(text: str) -> None:
    """To the launcher's output, at once."""
    print(text, flush=True)


def main() -> int:
    """Supervise; the exit code."""
    folder, ranks, timeout_s, hosts, address = sys.argv[1:6]
    least, _, most = hosts.partition(":")
    project = str(Path(folder).parent.parent)
    return supervise(
        [sys.executable, "-m", "umsicht", "train", "recipe.yaml", "--out", project, *sys.argv[6:]],
        Path(folder),
        ranks=int(ranks),
        max_restarts=100,
        step_timeout_s=float(timeout_s),
        hosts=(int(least), int(most)) if most else None,
        address=address,
        say=say,
    )


if __name__ == "__main__":
    from umsicht.findings import UserError

    try:
        sys.exit(main())
    except UserError as error:
        say(str(error))
        sys.exit(error.exit_code)
