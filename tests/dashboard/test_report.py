"""One file, no request, both languages, nothing of anybody's text where it is redacted."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.dashboard.records import make_run

from umsicht.dashboard import report
from umsicht.findings import UserError
from umsicht.record import atomic_json


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("project"), resume_at=600, overfit=True)


class Resources(HTMLParser):
    """Everything a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("src", "srcset", "data", "poster") or (
                name == "href" and tag in ("link", "image", "use")
            ):
                self.found.append(f"{tag} {name}={value}")
        if tag in ("script", "iframe", "object", "embed", "base", "form"):
            self.found.append(tag)


def test_the_file_fetches_nothing_and_is_small(folder: Path, tmp_path: Path) -> None:
    written = report(folder, tmp_path / "r.html")
    page = written.read_text("utf-8")
    parser = Resources()
    parser.feed(page)
    assert parser.found == []
    assert not re.search(r"url\((?!['\"]?data:)|@import|https?://(?!www\.w3\.org)", page)
    assert written.stat().st_size < 1_500_000


def test_both_languages_are_inside_and_lang_chooses_the_first(folder: Path, tmp_path: Path) -> None:
    page = report(folder, tmp_path / "r.html", lang="de").read_text("utf-8")
    assert '<html lang="de">' in page and '<main lang="en">' in page and '<main lang="de">' in page
    assert "Measurement sheet" in page and "Messblatt" in page
    assert re.search(r'id="lang-de" checked', page) and not re.search(r'id="lang-en" checked', page)
    assert "2.688" in page and "2,688" in page


def test_everything_the_run_recorded_is_there(folder: Path, tmp_path: Path) -> None:
    page = report(folder, tmp_path / "r.html", lang="en").read_text("utf-8")
    for slice_name in ("code.en", "encyclopedia.de", "prose.fr"):
        assert slice_name in page
    for text in ("The river and so on", "CURVE/spike", "xz with context", "Lineage", "overfitting", "xz -9"):
        assert text in page, text
    assert "dashboard." not in re.sub(r"<style>.*?</style>", "", page, flags=re.S)


def test_hostile_text_stays_text(folder: Path, tmp_path: Path) -> None:
    page = report(folder, tmp_path / "r.html").read_text("utf-8")
    assert "<img" not in page and "&lt;img src=x onerror=alert(1)&gt;" in page


def test_redacted_leaves_out_paths_texts_and_sources(folder: Path, tmp_path: Path) -> None:
    page = report(folder, tmp_path / "r.html", redact=True).read_text("utf-8")
    for secret in (
        str(folder),
        str(folder.parent),
        "The river",
        "Der Fluss",
        "a b c",
        "source:wiki",
        "mixed",
        "onerror",
    ):
        assert secret not in page, secret
    assert "2.688" in page and "Measurement sheet" in page


def test_a_report_of_a_run_that_has_barely_begun(tmp_path: Path) -> None:
    folder = make_run(tmp_path, steps=3)
    for name in ("metrics.jsonl", "samples.jsonl", "findings.jsonl"):
        (folder / name).unlink()
    page = report(folder, tmp_path / "r.html").read_text("utf-8")
    assert "Measurement sheet" in page


def test_damaged_records_do_not_stop_the_report(tmp_path: Path) -> None:
    folder = make_run(tmp_path, steps=40)
    (folder / "samples.jsonl").write_text(
        '{"step": 40}\n{"prompt": 3, "text": null, "step": 40, "seed": "x", "temperature": "hot"}\nnonsense\n'
    )
    (folder / "findings.jsonl").write_text('{"id": "NO-SUCH/thing", "grade": "stop"}\n{"id": 5}\n[]\n')
    (folder / "evaluations" / "broken.json").write_text("{")
    atomic_json(
        folder / "evaluations" / "odd.json", {"step": "late", "slices": {"a.en": {"bpb": "low"}, "b.en": 3}}
    )
    assert report(folder, tmp_path / "r.html").exists()


def test_no_run_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        report(tmp_path, tmp_path / "r.html")
    assert error.value.fix


def test_every_drawing_is_well_formed(folder: Path, tmp_path: Path) -> None:
    page = report(folder, tmp_path / "r.html").read_text("utf-8")
    drawings = re.findall(r"<svg.*?</svg>", page, flags=re.S)
    assert len(drawings) >= 16
    for drawing in drawings:
        root = ET.fromstring(drawing)
        assert root.find("title") is not None and root.get("role") == "img"
        assert "nan" not in drawing.lower().replace("finance", "")
