"""Programs under test in processes of their own: one that stays and answers each line of orders with one line of JSON, and our own command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.common import ROOT


class Program:
    """`script` under `python`, which need know nothing of Umsicht's dependencies but torch."""

    def __init__(
        self,
        python: Path,
        script: Path,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        paths = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
        self._process = subprocess.Popen(
            [str(python), str(script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {}), "PYTHONPATH": paths},
        )
        self.is_ready = self._line() == "ready"

    def _line(self) -> str:
        """The next line of the protocol; what libraries print in between is passed over. Empty where the program has ended."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            text = line.strip()
            if text == "ready" or text.startswith("{"):
                return text
        return ""

    def ask(self, order: str) -> dict[str, float]:
        """The answer to an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()
        answer: dict[str, float] = json.loads(self._line())
        return answer

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=60)


def umsicht(*arguments: str) -> dict[str, Any]:
    """What a verb of ours answers with `--json`. Raises CalledProcessError where it does not end well."""
    done = subprocess.run(
        [sys.executable, "-m", "umsicht", *arguments, "--json"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "UMSICHT_LANG": "en"},
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
