"""Every command that README and documentation show is one that runs: parsed in the short tests, executed in the long ones."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pages import ROOT, Shown, commands

from umsicht.cli.main import build_app
from umsicht.cli.verbs import ALIASES

ELSEWHERE = {
    "make": "the Makefile's targets are what CI itself runs",
    "python examples/mistakes": "tests/docs/test_mistakes.py",
    "python examples/promotional-tone": "tests/docs/test_promotional_tone.py",
    "umsicht evaluate RUN --harness": "tests/oracle, where lm-eval is installed",
    "umsicht run mine/recipe.yaml --nproc": "tests/train, with several processes",
    "umsicht train": "tests/train and tests/pipeline, with processes that are killed",
    "umsicht launch": "tests/cli, against each engine's own schema",
    "umsicht corpus classifier": "tests/corpus/test_labels.py",
}
"""Beginnings of commands that other tests execute."""
FAILS = {
    "diagnose": (0, 1),
    "compare": (0, 1),
    "evaluate": (0, 1),
    "doctor": (0, 1),
    "check": (0, 1),
    "plan": (0, 1),
    "corpus": (0, 1),
    "rate": (0, 1),
}
"""Verbs whose exit code says what they found, not whether they ran."""
SERVERS = {"dashboard", "watch"}
PARENT = "train.budget.steps=600"


def name(shown: Shown) -> str:
    return f"{shown.page}: {' '.join(shown.words)}"


def elsewhere(shown: Shown) -> str:
    """The test that executes a command which this one does not."""
    line = " ".join(shown.words).replace("--lang de ", "")
    return next((why for begin, why in ELSEWHERE.items() if line.startswith(begin)), "")


UMSICHT = [shown for shown in commands() if shown.words[0] == "umsicht"]
HERE = [shown for shown in UMSICHT if not elsewhere(shown)]


@cache
def application() -> Any:
    return build_app("*")


def test_pages_show_commands() -> None:
    assert len(UMSICHT) > 60


@pytest.mark.parametrize("shown", UMSICHT, ids=name)
def test_a_shown_command_is_one_that_the_command_line_accepts(shown: Shown) -> None:
    words = [word for word in shown.words[1:] if word not in ("--lang", "de", "--quiet", "--debug")]
    words[0] = ALIASES.get(words[0], words[0])
    replaced = [word.replace("RUN@1000", "run@10").replace("RUN@2000", "run@20") for word in words]
    application().parse_args(replaced, exit_on_error=False, print_error=False)


@pytest.mark.parametrize("shown", [s for s in commands() if s not in UMSICHT], ids=name)
def test_what_is_not_umsicht_itself_is_executed_by_a_test_or_by_ci(shown: Shown) -> None:
    assert elsewhere(shown)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which every command of the pages finds what it names: a trained tiny project under each of the pages' names."""
    folder = tmp_path_factory.mktemp("stage")
    (folder / "examples").mkdir()
    recipe = f"name: quickstart\npreset: tiny\ntrain: {{budget: {{steps: {PARENT.rpartition('=')[2]}}}, checkpoint: {{every_steps: 300}}}}\n"
    (folder / "examples" / "quickstart.yaml").write_text(recipe)
    done = umsicht(folder, "run", "examples/quickstart.yaml")
    assert done.returncode == 0, done.stderr
    for project in ("my-model", "mine", "meins", "big"):
        shutil.copytree(folder / "quickstart", folder / project)
        (folder / project / "recipe.yaml").write_text(recipe)
    fill(folder)
    made = umsicht(
        folder, "experiment", "new", "--from", "my-model", "--set", "train.optimizer.matrix_rate=0.03"
    )
    assert made.returncode == 0, made.stderr
    yield folder


def fill(folder: Path) -> None:
    """Logs, rows and texts that the pages name."""
    run = next((folder / "quickstart" / "runs").iterdir())
    (folder / "runs").mkdir()
    for label in ("a-0", "a-1", "a-2", "b-0", "b-1", "b-2", "mine"):
        shutil.copytree(run, folder / "runs" / label)
        if label.startswith("b-"):
            path = folder / "runs" / label / "manifest.json"
            manifest = json.loads(path.read_text())
            manifest["recipe"].setdefault("train", {}).setdefault("optimizer", {})["matrix_rate"] = 0.03
            path.write_text(json.dumps(manifest))
    for number in (0, 1):
        for label, shift in (("old", 0.1), ("new", 0.0)):
            rows = [
                f"{step};{(8 / step + shift + number / 100):.3f}".replace(".", ",") for step in range(1, 60)
            ]
            (folder / f"{label}{number}.csv").write_text("step;val/all/loss\n" + "\n".join(rows) + "\n")
    log = "step;Verlust;Validierung\n" + "".join(
        f"{s};{6 / s + 2:.3f};{6 / s + 2.1:.3f}\n" for s in range(1, 90)
    ).replace(".", ",")
    (folder / "log.csv").write_text(log)
    state = folder / "outputs" / "checkpoint-500"
    state.mkdir(parents=True)
    history = [{"step": s, "loss": 8 / s + 2} for s in range(1, 60)] + [
        {"step": s, "eval_loss": 8 / s + 2.1} for s in range(10, 60, 10)
    ]
    (state / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"What is {n} and one?"},
                {"role": "assistant", "content": f"It is {n + 1}."},
            ]
        }
        for n in range(40)
    ]
    (folder / "chat.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "recipe.yaml").write_text(
        (folder / "examples" / "quickstart.yaml").read_text()
        + "finetune: {stages: [{name: again, method: sft, data: [chat.jsonl], epochs: 1}]}\n"
    )
    (folder / "text.txt").write_text("Some text that is not in the corpus.\n" * 20)


def umsicht(folder: Path, *words: str, timeout: float = 3600) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "umsicht", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
        input="",
        check=False,
        env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "COLUMNS": "120"},
    )


def filled(words: list[str], folder: Path) -> list[str]:
    """The command with the pages' placeholders filled in."""
    run = next(path for path in sorted((folder / "my-model" / "runs").iterdir()) if "sft" not in path.name)
    tokenizer = next((folder / "quickstart" / "artifacts" / "tokenizer").iterdir())
    planned = next((folder / "my-model" / "experiments").glob("*.yaml"))
    values = {
        "my-model/runs/base-1a2b3c": f"my-model/runs/{run.name}",
        "artifacts/tokenizer/NAME-ID": str(tokenizer),
        "my-model/experiments/NAME.yaml": str(planned.relative_to(folder)),
        "path/to/hf-model": "out",
        "hf-model-": "my-model",
        "RUN@1000": f"my-model/runs/{run.name}@300",
        "RUN@2000": f"my-model/runs/{run.name}@600",
        "RUN": f"my-model/runs/{run.name}",
        "RECIPE": "mine/recipe.yaml",
        "TEXT": "text.txt",
    }
    out = []
    for word in words:
        for placeholder, value in values.items():
            if placeholder in word:
                word = word.replace(placeholder, value)
                break
        out.append(word)
    return out


def heeds_interrupts() -> None:
    """A job that a script started in the background ignores SIGINT, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def serves(folder: Path, words: list[str]) -> None:
    """A verb that goes on until it is stopped: it must have said something by then, and end by itself when asked to."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "umsicht",
            *words,
            *(["--no-browser", "--port", "0"] if "dashboard" in words else []),
        ],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        preexec_fn=heeds_interrupts,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=600)


@pytest.mark.long
@pytest.mark.parametrize("shown", HERE, ids=name)
def test_a_shown_command_runs(shown: Shown, stage: Path) -> None:
    words = filled(shown.words[1:], stage)
    bare = [word for word in words if word not in ("--lang", "de")]
    verb = bare[0]
    if verb in SERVERS:
        serves(stage, words)
        return
    if verb == "init":
        shutil.rmtree(stage / f"new-{bare[1]}", ignore_errors=True)
        words = [f"new-{word}" if word == bare[1] else word for word in words]
    if bare[:2] == ["rate", "import"]:
        answer_all(stage / bare[3])
    if bare[:2] == ["rate", "do"]:
        answers_in_a_terminal(stage, words)
        return
    if bare[:2] == ["experiment", "new"]:
        shutil.rmtree(stage / bare[bare.index("--from") + 1] / "experiments", ignore_errors=True)
    done = umsicht(stage, *words)
    assert done.returncode in FAILS.get(verb, (0,)), f"{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
    assert "Traceback" not in done.stderr


def answers_in_a_terminal(folder: Path, words: list[str]) -> None:
    """A rater who answers every item, left and right in turn."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"1\n3\n" * 100)
        done = subprocess.run(
            [sys.executable, "-m", "umsicht", *words],
            cwd=folder,
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0, done.stderr[-1500:]


def answer_all(path: Path) -> None:
    """Fill the exported sheet of a rater, left and right in turn."""
    import csv

    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for number, row in enumerate(rows):
            writer.writerow({**row, "answer": "right" if number % 2 else "left"})


def test_the_root_of_the_pages_is_this_repository() -> None:
    assert (ROOT / "mkdocs.yml").is_file()
