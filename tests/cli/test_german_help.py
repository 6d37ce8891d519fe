"""`--help` speaks German where German was asked for: every sentence of every verb."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from umsicht.cli.german import functions, rebuilt, sentences
from umsicht.cli.main import main
from umsicht.cli.verbs import VERBS
from umsicht.words import catalogue, set_language

GERMAN = catalogue("de", "help")


@pytest.mark.parametrize("verb", VERBS)
def test_every_sentence_of_a_verb_has_a_german_one(verb: str) -> None:
    missing = [
        sentence
        for function in functions(VERBS[verb].load())
        for sentence in sentences(function.__doc__ or "")
        if sentence not in GERMAN and sentence not in GERMAN.values()
    ]
    assert not missing


def test_no_german_sentence_is_left_without_a_verb() -> None:
    shown = {
        sentence
        for verb in VERBS.values()
        for function in functions(verb.load())
        for sentence in sentences(function.__doc__ or "")
    }
    assert not [english for english, german in GERMAN.items() if english not in shown and german not in shown]


def test_a_sentence_without_a_german_one_stays_english_and_parameters_keep_their_names() -> None:
    english = inspect.cleandoc(
        """One thing.

        Parameters
        ----------
        first
            Known
            sentence.
        second
            Unknown sentence.
        """
    )
    made = rebuilt(english, {"One thing.": "Eines.", "Known sentence.": "Bekannter Satz."})
    assert (
        made == "Eines.\n\nParameters\n----------\nfirst\n    Bekannter Satz.\nsecond\n    Unknown sentence."
    )


def test_the_help_of_a_verb_is_german_on_request(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "umsicht", "--lang", "de", "run", "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert "Ein Rezept ausführen" in done.stdout and "Die Rezeptdatei." in done.stdout
    assert "The recipe file." not in done.stdout
    assert "Aufruf: umsicht run [OPTIONEN] RECIPE" in done.stdout
    assert "--out PFAD" in done.stdout and "[nötig]" in done.stdout and "[Vorgabe: nein]" in done.stdout
    assert not [word for word in ("Usage", "[OPTIONS]", "[required]", "[default") if word in done.stdout]


@pytest.mark.parametrize(
    ("line", "english", "german"),
    [
        (["plan"], "umsicht plan needs RECIPE.", "umsicht plan braucht RECIPE."),
        (["run", "a.yaml", "--out"], "--out needs a value.", "--out braucht einen Wert."),
        (
            ["run", "a.yaml", "--outt", "x"],
            "umsicht run has no option --outt.",
            "umsicht run kennt keine Option --outt.",
        ),
        (
            ["corpus", "bild"],
            "umsicht corpus has no command “bild”",
            "umsicht corpus kennt keinen Befehl „bild“",
        ),
        (
            ["launch", "a.yaml", "--to", "slurm", "--nproc-per-node", "x"],
            "--nproc-per-node must be a whole number, not “x”.",
            "--nproc-per-node muss eine ganze Zahl sein, nicht „x“.",
        ),
        (
            ["launch", "a.yaml", "--to", "sea"],
            "--to must be one of slurm, kubernetes, skypilot, ray, not “sea”.",
            "--to muss eines von slurm, kubernetes, skypilot, ray sein, nicht „sea“.",
        ),
    ],
)
def test_a_usage_error_is_said_in_the_readers_language(
    line: list[str],
    english: str,
    german: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for code, sentence in (("en", english), ("de", german)):
        monkeypatch.setenv("UMSICHT_LANG", code)
        set_language(code)
        with pytest.raises(SystemExit) as end:
            main(line)
        assert end.value.code == 2
        assert sentence in " ".join(capsys.readouterr().err.split())
    set_language(None)
