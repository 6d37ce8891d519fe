"""What README and docs tell people to type exists: verbs, findings, files, links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from umsicht.cli.verbs import ALIASES, VERBS
from umsicht.findings import known_ids

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    [ROOT / "README.md", ROOT / "README.de.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
)


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_command_on_a_page_is_a_verb(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    typed = re.findall(r"^\s*(?:\$ )?umsicht ([a-z]+)", text, re.MULTILINE) + re.findall(
        r"`umsicht ([a-z]+)", text
    )
    assert set(typed) <= {*VERBS, *ALIASES}


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_explained_finding_is_in_the_catalogue(page: Path) -> None:
    named = re.findall(r"umsicht explain ([A-Z-]+/[a-z0-9-]+)", page.read_text(encoding="utf-8"))
    assert set(named) <= set(known_ids())


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    broken = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not broken


def test_both_readmes_name_the_two_commands_that_the_makefile_has() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for name in ("README.md", "README.de.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for target in ("demo", "test"):
            assert f"make {target}" in text
            assert re.search(rf"^{target}:", makefile, re.MULTILINE)
