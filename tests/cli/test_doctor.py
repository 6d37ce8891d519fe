"""`umsicht doctor`: facts, what is wrong with what mends it, and the completion of the shell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from umsicht.cli import examine
from umsicht.cli.main import build_app
from umsicht.words import catalogue

FOUND = {
    "cores": 2,
    "quota": 2,
    "threads": 2,
    "cpu_features": [],
    "cuda": "",
    "mps": "",
    "allocator": "x",
    "compiler": True,
    "distributed": ["gloo"],
    "charts": True,
}


@pytest.fixture(scope="module")
def facts() -> dict[str, object]:
    return examine.facts()


def test_every_fact_has_a_name_in_both_languages(facts: dict[str, object]) -> None:
    for lang in ("en", "de"):
        assert not [key for key in facts if f"doctor.fact.{key}" not in catalogue(lang, "cli")]


def test_a_process_group_really_opens_here(facts: dict[str, object]) -> None:
    assert "gloo" in facts["distributed"]  # type: ignore[operator]


def test_this_environment_has_nothing_that_will_not_work_together(facts: dict[str, object]) -> None:
    assert not [line for line in examine.problems({**facts, **FOUND}) if "torch" in line or "dask" in line]


def test_more_threads_than_cores_are_advised_against() -> None:
    calm = examine.advice(FOUND)
    loud = examine.advice({**FOUND, "threads": 16, "quota": 1.5})
    assert any("OMP_NUM_THREADS=1" in line for line in loud)
    assert not any("OMP_NUM_THREADS" in line for line in calm)


def test_what_is_missing_is_named_with_what_mends_it() -> None:
    said = examine.problems({**FOUND, "compiler": False, "distributed": []})
    assert any("g++" in line for line in said)
    assert len(said) >= 2


def test_a_package_that_cannot_be_imported_is_named_with_its_own_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(name: str) -> None:
        raise ImportError("Numba needs NumPy 2.4 or less")

    monkeypatch.setattr(examine.importlib, "import_module", refuse)
    assert any("NumPy 2.4" in line for line in examine.problems(FOUND))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell_knows_the_verbs_and_parses(shell: str, tmp_path: Path) -> None:
    script = build_app("*").generate_completion(shell=shell)
    assert "finetune" in script and "diagnose" in script
    if shutil.which(shell):
        path = tmp_path / "completion"
        path.write_text(script)
        assert subprocess.run([shell, "-n", str(path)], check=False).returncode == 0
