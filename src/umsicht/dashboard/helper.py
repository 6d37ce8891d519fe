"""A question to a process of its own: what it loads never stays in the server, what it breaks harms no page."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def ask(module: str, question: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """Run `python -m module` with `question` as JSON on its input; its JSON answer, or `{"problem": "unreadable"}`."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", module],
            input=json.dumps(question),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        answer = json.loads(done.stdout or "{}")
    except (subprocess.TimeoutExpired, ValueError, OSError):
        answer = None
    return answer if isinstance(answer, dict) and "problem" in answer else {"problem": "unreadable"}
