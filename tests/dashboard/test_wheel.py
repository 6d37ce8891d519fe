"""What gets shipped: the chart library and the pages are inside the wheel; without npm a wheel is refused in one sentence."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (ROOT / "src/umsicht/dashboard/_vendor/uPlot.esm.js").exists(),
        reason="uPlot was not fetched: the wheel is not tested",
    ),
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    target = tmp_path / "tree"
    target.mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "NOTICE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, target / name)
    shutil.copytree(ROOT / "src", target / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "web", target / "web", ignore=shutil.ignore_patterns("node_modules"))
    return target


def build(tree: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    return subprocess.run(
        command,
        cwd=tree,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=300,
        check=False,
    )


def test_the_wheel_carries_pages_words_and_charts(tree: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed: the wheel is not built")
    done = build(tree, PATH="/nonexistent")
    assert done.returncode == 0, done.stderr
    (wheel,) = (tree / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assets = [
            info
            for info in archive.infolist()
            if any(
                part in info.filename
                for part in ("dashboard/static/", "dashboard/_vendor/", "dashboard/templates/")
            )
        ]
    for name in (
        "dashboard/_vendor/uPlot.esm.js",
        "dashboard/_vendor/LICENSE-uPlot.txt",
        "dashboard/static/live.js",
        "dashboard/templates/base.html",
        "words/de/dashboard.json",
    ):
        assert f"umsicht/{name}" in names
    assert len(names) == len(set(names))
    assert sum(info.file_size for info in assets) < 1_000_000


def test_without_npm_and_without_the_library_the_wheel_is_refused_in_one_sentence(tree: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed: the wheel is not built")
    shutil.rmtree(tree / "src" / "umsicht" / "dashboard" / "_vendor")
    done = build(tree, PATH="/nonexistent")
    assert done.returncode != 0
    said = [line for line in (done.stdout + done.stderr).splitlines() if "npm was not found" in line]
    assert said and not list(tree.glob("dist/*.whl"))


def test_an_installed_dashboard_draws_svg_without_the_library(tree: Path, tmp_path: Path) -> None:
    shutil.rmtree(tree / "src" / "umsicht" / "dashboard" / "_vendor")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1] + '/src'); sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path; from starlette.testclient import TestClient\n"
        "from tests.dashboard.records import make_run; from umsicht.dashboard.app import create_app\n"
        "make_run(Path(sys.argv[3]), 'first', steps=60)\n"
        "page = TestClient(create_app(Path(sys.argv[3])), base_url='http://127.0.0.1:1').get('/run/first/?lang=en').text\n"
        "assert page.count('<svg') > 3 and 'python hatch_build.py' in page and 'uPlot.min.css' not in page\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tree), str(ROOT), str(tmp_path / "p")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        check=False,
    )
    assert done.returncode == 0, done.stderr
