"""Environments of peers: made once under `bench/peers/.venvs/NAME` from `NAME-requirements.txt`, never part of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def peer_python(name: str) -> Path | None:
    """The Python of a peer environment: the one in UMSICHT_PEERS_<NAME>, the one made before, or a new one; None where pip cannot make it."""
    named = os.environ.get(f"UMSICHT_PEERS_{name.upper()}")
    if named:
        return Path(named)
    folder = HERE / ".venvs" / name
    python = folder / "bin" / "python"
    if (folder / "complete").is_file():
        return python
    requirements = HERE / f"{name}-requirements.txt"
    index = os.environ.get("TORCH_INDEX")
    extra = ["--extra-index-url", index] if index else []
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", *extra, "-r", str(requirements)], check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    (folder / "complete").touch()
    return python
