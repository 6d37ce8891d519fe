"""What is handed out: sdist and wheel carry what they need, and the extras fit together."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = ("corpus", "dashboard", "hf", "gguf", "eval", "docs", "all")
INSIDE = (
    "umsicht/py.typed",
    "umsicht/words/de/cli.json",
    "umsicht/words/de/findings/guard.json",
    "umsicht/recipe/presets/quickstart.yaml",
    "umsicht/evaluate/prompts/default.json",
    "umsicht/corpus/label/presets/promotional.npz",
    "umsicht/dashboard/_vendor/uPlot.esm.js",
    "umsicht/dashboard/_vendor/LICENSE-uPlot.txt",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """sdist from this tree, and a wheel from the sdist alone."""
    if not (ROOT / "src/umsicht/dashboard/_vendor/uPlot.esm.js").is_file():
        pytest.skip("the charts' library is not here: no npm when this environment was made")
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)], ROOT)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], source)
    return folder


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.long
def test_a_wheel_made_from_the_sdist_carries_data_words_and_charts(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert not set(INSIDE) - names
    assert not [name for name in names if name.startswith(("tests/", "bench/")) or "__pycache__" in name]


@pytest.mark.long
def test_the_sdist_carries_what_make_test_and_make_docs_need(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    wanted = {
        "Makefile",
        "mkdocs.yml",
        "docs/_site/hook.py",
        "tests/test_house.py",
        "bench/common.py",
        "web/package-lock.json",
        "CITATION.cff",
    }
    assert not wanted - names
    assert not [name for name in names if ".venv" in name or "node_modules" in name]


@pytest.mark.long
def test_the_extras_resolve_together() -> None:
    known = [extra for extra in EXTRAS if extra in PROJECT["optional-dependencies"]]
    assert {"corpus", "dashboard", "docs", "all"} <= set(known)
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--quiet",
        "--disable-pip-version-check",
        "-c",
        "constraints.txt",
    ]
    done = subprocess.run(
        [*command, f".[{','.join(known)}]"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode and "ResolutionImpossible" not in done.stderr and "conflict" not in done.stderr:
        pytest.skip(
            f"no package index here: {done.stderr.strip().splitlines()[-1][:200] if done.stderr else ''}"
        )
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_package_says_the_same_everywhere() -> None:
    from umsicht import __version__

    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {__version__}" in citation and PROJECT["version"] == __version__
    assert f"license: {PROJECT['license']}" in citation


def test_only_the_python_that_was_tested_is_claimed() -> None:
    claimed = [
        line.rpartition(" ")[2]
        for line in PROJECT["classifiers"]
        if line.startswith("Programming Language :: Python :: 3.")
    ]
    assert claimed == ["3.11"] and PROJECT["requires-python"] == ">=3.11"


def test_container_files_copy_only_what_exists() -> None:
    for path in (ROOT / "containers").glob("*.Containerfile"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("COPY ") and "--from" not in line:
                assert not [name for name in line.split()[1:-1] if not (ROOT / name).exists()], line
