"""The whole walk on real text: a kill anywhere costs nothing finished, and an unchanged recipe does no work again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

RECIPE = "name: walk\npreset: tiny\n"
ENVIRONMENT = {**os.environ, "UMSICHT_LANG": "en", "OMP_WAIT_POLICY": "PASSIVE"}


def start(folder: Path, *more: str) -> subprocess.Popen[str]:
    """`umsicht run` as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "umsicht", "run", "recipe.yaml", "--json", *more],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def finish(folder: Path, *more: str) -> tuple[int, str, str]:
    """Run to the end."""
    process = start(folder, *more)
    out, err = process.communicate(timeout=420)
    return process.returncode, out, err


def stamps(folder: Path) -> dict[str, int]:
    """Modification times of everything that is expensive to make."""
    kept = [*folder.glob("artifacts/*/*/manifest.json"), *folder.glob("runs/*/checkpoints/*/manifest.json")]
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in kept}


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project whose run was killed in the middle of training, and then finished by the same command."""
    folder = tmp_path_factory.mktemp("walk")
    (folder / "recipe.yaml").write_text(RECIPE)
    process = start(folder)
    deadline = time.monotonic() + 300
    while not list(folder.glob("runs/*/checkpoints/step-*/manifest.json")):
        if process.poll() is not None:
            out, err = process.communicate()
            pytest.fail(f"the run ended before its first checkpoint: {out}\n{err}")
        assert time.monotonic() < deadline, "no checkpoint in 300 s"
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    code, out, err = finish(folder)
    assert code == 0, err
    (folder / "result.json").write_text(out)
    yield folder


def test_a_killed_run_goes_on_where_its_last_checkpoint_stands(walked: Path) -> None:
    result = json.loads((walked / "result.json").read_text())
    manifest = json.loads((walked / result["run"] / "manifest.json").read_text())
    assert result["outcome"]["reason"] == "finished"
    assert manifest["segments"] == 2


def test_every_slice_is_scored_beside_its_baselines(walked: Path) -> None:
    evaluation = json.loads((walked / "result.json").read_text())["evaluation"]
    assert evaluation["slices"]
    for name, score in evaluation["slices"].items():
        assert 0 < score["bpb"] < 8
        assert set(evaluation["baselines"][name]) == {"xz", "xz_context", "ngram5"}


def test_the_verdict_and_the_report_are_there_and_the_report_asks_for_nothing_foreign(walked: Path) -> None:
    result = json.loads((walked / "result.json").read_text())
    assert result["diagnosis"]["verdict"]
    page = (walked / result["report"]).read_text(encoding="utf-8")
    assert "<svg" in page
    assert 'src="http' not in page
    assert 'href="http' not in page.replace('href="http://www.w3.org', "")


def test_an_unchanged_recipe_does_no_work_again(walked: Path) -> None:
    before = stamps(walked)
    began = time.monotonic()
    code, _, err = finish(walked)
    assert code == 0, err
    assert stamps(walked) == before
    assert time.monotonic() - began < 60


def test_every_artifact_and_checkpoint_verifies_and_a_flipped_bit_is_named(walked: Path) -> None:
    def verify() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "umsicht", "verify", str(walked)]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)

    assert verify().returncode == 0
    victim = next(walked.glob("artifacts/tokens/*/train/*.tokens.npy"))
    data = bytearray(victim.read_bytes())
    data[-1] ^= 1
    victim.write_bytes(data)
    damaged = verify()
    data[-1] ^= 1
    victim.write_bytes(data)
    assert damaged.returncode == 1
    assert victim.name in damaged.stdout


def test_the_lineage_reaches_the_installed_packages(walked: Path) -> None:
    command = [sys.executable, "-m", "umsicht", "lineage", str(walked)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert "corpus walk" in done.stdout
    assert "source" in done.stdout
    assert "(missing)" not in done.stdout


def test_another_seed_trains_another_run_on_the_same_data(walked: Path) -> None:
    before = stamps(walked)
    process = start(walked, "--set", "seed=1")
    try:
        deadline = time.monotonic() + 120
        while len(list(walked.glob("runs/*/manifest.json"))) < 2 and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert len(list(walked.glob("runs/*/manifest.json"))) == 2
    data = {
        path: stamp
        for path, stamp in stamps(walked).items()
        if path.startswith("artifacts/") and "/plan/" not in path
    }
    assert data == {path: stamp for path, stamp in before.items() if path in data}
