"""The environment of the oracles: transformers, trl, peft and gguf, apart from our own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.common import ROOT

PINS = (
    "transformers==5.24.0",
    "tokenizers==0.23.3",
    "peft==0.21.2",
    "trl==1.16.0",
    "accelerate==1.15.0",
    "datasets==5.2.0",
    "gguf==0.19.0",
    "lm-eval==0.4.13",
    "scikit-learn==1.9.1",
    "statsmodels==0.15.0",
    "choix==0.4.1",
    "krippendorff==0.9.0",
)
"""A set that resolves together with the torch of constraints.txt."""


def python() -> Path:
    """The interpreter of the oracles: `ORACLE_PYTHON`, else `.venv-oracle`, made where it is missing (minutes)."""
    given = os.environ.get("ORACLE_PYTHON")
    if given:
        return Path(given)
    folder = ROOT / ".venv-oracle"
    interpreter = folder / "bin" / "python"
    if not (folder / ".made").is_file():
        print("making .venv-oracle: transformers, trl, peft, gguf", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(interpreter), "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt")]
        subprocess.run([*pip, "torch"], check=True, cwd=ROOT)
        subprocess.run([*pip, "-e", ".[corpus]", *PINS, "pytest", "hypothesis"], check=True, cwd=ROOT)
        (folder / ".made").touch()
    return interpreter
