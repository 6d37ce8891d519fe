"""The site builds strictly and asks nothing of another machine; what is written from the code says what the code says; filled figures are not behind."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

from umsicht.findings import known_ids
from umsicht.recipe import Recipe

sys.path.insert(0, str(ROOT / "docs"))

from _site import commands, findings, house, python, recipe

GERMAN = {
    "start.md": "start.md",
    "read-your-loss.md": "loss-lesen.md",
    "index.md": "index.md",
}


def test_every_setting_of_a_recipe_is_on_its_page() -> None:
    page = recipe.page()
    for name, model in recipe.sections():
        for key in model.model_fields:
            assert f"| `{key}` |" in page, f"{name}.{key}"
    assert "`global_batch_tokens`" in page and "train" in Recipe.model_fields


def test_every_setting_says_what_it_means() -> None:
    silent = re.findall(r"^\| (`\w+`) \| [^|]* \| [^|]* \|  \|$", recipe.page(), re.MULTILINE)
    assert not silent


@pytest.mark.parametrize("lang", ["en", "de"])
def test_every_finding_is_on_the_page_of_its_language(lang: str) -> None:
    page = findings.page(lang)
    missing = [identity for identity in known_ids() if f"{{ #{findings.anchor(identity)} }}" not in page]
    assert not missing
    assert ("Nächster Schritt" in page) == (lang == "de")


def test_every_verb_is_on_the_page_of_the_command_line() -> None:
    from umsicht.cli.verbs import VERBS

    page = commands.page()
    assert not [verb for verb in VERBS if f"umsicht {verb}" not in page]


def test_every_name_a_package_offers_is_on_the_page_of_python_with_a_sentence() -> None:
    page = python.page()
    for room, names in python.offered().items():
        for name in names:
            entry = page.partition(f"{{ #{room} }}")[2].partition("\n## ")[0].partition(f"### {name}\n")[2]
            assert entry, f"umsicht.{room}.{name}"
            if f"```python\n{name}" in entry[:200]:
                assert entry.split("```")[2].partition("\n### ")[0].strip(), (
                    f"umsicht.{room}.{name} says nothing"
                )


def test_the_drawing_shows_no_arrow_upwards() -> None:
    found = house.imports()
    order = list(house.ORDER)
    assert found["cli"]["words"] and not found["words"]
    assert not [(a, b) for a in order for b in found[a] if order.index(b) > order.index(a)]
    assert "except" not in house.page()


def test_the_drawing_has_every_package_of_the_house() -> None:
    assert {path.parent.name for path in house.SOURCE.glob("*/__init__.py")} == set(house.ORDER)


def test_figures_that_are_filled_in_are_not_behind() -> None:
    done = subprocess.run(
        [sys.executable, "docs/_site/fill.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("english", "german"), GERMAN.items())
def test_pages_for_newcomers_exist_in_german_with_the_same_commands(english: str, german: str) -> None:
    def typed(path: Path) -> set[str]:
        text = path.read_text(encoding="utf-8").replace("--lang de ", "")
        return set(re.findall(r"^umsicht (\w+)", text, re.MULTILINE))

    assert typed(ROOT / "docs" / english) == typed(ROOT / "docs" / "de" / german)


def test_each_of_the_thirteen_mistakes_has_a_page_in_both_languages() -> None:
    for folder in ("mistakes", "de/fehler"):
        numbers = sorted(path.name[:2] for path in (ROOT / "docs" / folder).glob("[0-9]*.md"))
        assert numbers == [f"{number:02d}" for number in range(1, 14)]


@pytest.mark.long
def test_the_site_builds_strictly_and_asks_nothing_of_another_machine(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="the extra [docs] is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    loads = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=["']?(https?:)?//""")
    foreign = [
        page.name for page in tmp_path.rglob("*.html") if loads.search(page.read_text(encoding="utf-8"))
    ]
    assert not foreign
    assert (tmp_path / "de" / "fehler" / "index.html").is_file()
