"""Starting real ranks: one `torchrun` a call, many cases inside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def torchrun(
    n: int, script: str, wanted: dict[str, Any], *, timeout: float = 1800
) -> subprocess.CompletedProcess[str]:
    """Run `tests/train/<script>` as `n` ranks of one thread each; its argument is `wanted` as JSON. Raises where it fails."""
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={n}",
        str(HERE / script),
    ]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH", "")))),
    }
    done = subprocess.run(
        [*command, json.dumps(wanted)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return done
