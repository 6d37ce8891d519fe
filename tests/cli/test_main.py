"""The command line answers mistakes in four lines, with the right exit code, in both languages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from umsicht.cli.main import _explain_os_error, main
from umsicht.cli.verbs import ALIASES, VERBS


def umsicht(*arguments: str, cwd: Path, lang: str = "en") -> subprocess.CompletedProcess[str]:
    """Run the command line in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "umsicht", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "UMSICHT_LANG": lang, "COLUMNS": "120"},
    )


def test_help_names_every_verb(tmp_path: Path) -> None:
    done = umsicht("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert all(verb in done.stdout for verb in VERBS)


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_loads_and_explains_itself(verb: str) -> None:
    loaded = VERBS[verb].load()
    assert str(getattr(loaded, "help", "") or loaded.__doc__ or "").strip()


def test_aliases_point_to_verbs() -> None:
    assert set(ALIASES.values()) <= set(VERBS)


def test_an_unknown_verb_is_a_usage_error_with_a_suggestion(tmp_path: Path) -> None:
    done = umsicht("rnu", cwd=tmp_path)
    assert done.returncode == 2
    assert "run" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_option_is_a_usage_error(tmp_path: Path) -> None:
    done = umsicht("runs", "--jsno", cwd=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)


def test_a_library_that_is_not_installed_is_told_as_the_extra_that_brings_it(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("name: x\npreset: tiny\n")
    without = "import sys; sys.modules['pyarrow'] = None; from umsicht.cli.main import main; main(['run', 'r.yaml'])"
    done = subprocess.run(
        [sys.executable, "-c", without], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "pip install 'umsicht[corpus]'" in done.stderr and "Traceback" not in done.stderr


def test_a_missing_recipe_says_how_to_make_one_in_german_too(tmp_path: Path) -> None:
    done = umsicht("run", "nichts.yaml", "--lang", "de", cwd=tmp_path)
    assert done.returncode == 2
    assert "gibt es kein Rezept" in done.stderr


def test_a_recipe_with_a_typo_names_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("name: x\npreset: tiny\ntrian: {}\n")
    done = umsicht("run", "r.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "r.yaml:3" in done.stderr
    assert "train" in done.stderr


def test_init_writes_a_recipe_that_loads_and_never_overwrites_one(tmp_path: Path) -> None:
    assert umsicht("init", "mine", "--preset", "tiny", cwd=tmp_path).returncode == 0
    assert umsicht("run", "mine/recipe.yaml", "--dry-run", cwd=tmp_path).returncode == 0
    assert umsicht("init", "mine", cwd=tmp_path).returncode == 2


def test_an_override_shows_in_the_dry_run(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("name: x\npreset: tiny\n")
    done = umsicht(
        "run", "r.yaml", "--dry-run", "--set", "seed=7", "--set", "tokenizer.vocab_size=600", cwd=tmp_path
    )
    recipe = json.loads(done.stdout)
    assert (recipe["seed"], recipe["tokenizer"]["vocab_size"]) == (7, 600)


def test_a_waiver_without_a_reason_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("name: x\npreset: tiny\n")
    done = umsicht("run", "r.yaml", "--waive", "CORPUS/x", cwd=tmp_path)
    assert done.returncode == 2
    assert "--because" in done.stderr


def test_an_empty_project_has_no_runs_and_says_how_to_begin(tmp_path: Path) -> None:
    done = umsicht("runs", cwd=tmp_path)
    assert done.returncode == 0
    assert "umsicht run" in done.stdout
    assert json.loads(umsicht("runs", "--json", cwd=tmp_path).stdout) == []


def test_an_unknown_run_says_where_to_look(tmp_path: Path) -> None:
    done = umsicht("show", "nothing", cwd=tmp_path)
    assert done.returncode == 2
    assert "umsicht runs" in done.stderr


def test_explain_shows_where_a_findings_numbers_will_stand(tmp_path: Path) -> None:
    said = umsicht("explain", "TARGET-SHIFT/offset", cwd=tmp_path).stdout
    assert "‹" in said
    assert "{" not in said


def test_explain_knows_settings_and_suggests_for_typos(tmp_path: Path) -> None:
    assert "tokenizer.vocab_size" in umsicht("explain", "tokenizer.vocab_size", cwd=tmp_path).stdout
    done = umsicht("explain", "tokenizer.vocab_sise", cwd=tmp_path)
    assert done.returncode == 2
    assert "tokenizer.vocab_size" in done.stderr


def test_doctor_answers_in_json(tmp_path: Path) -> None:
    facts = json.loads(umsicht("doctor", "--json", cwd=tmp_path).stdout)["facts"]
    assert facts["libraries"]["torch"]
    assert facts["cores"] >= 1


def test_help_lists_the_verbs_by_stage_in_both_languages(tmp_path: Path) -> None:
    english, german = (umsicht("--help", cwd=tmp_path, lang=lang).stdout for lang in ("en", "de"))
    assert english.index("corpus") < english.index("train ") < english.index("export")
    assert "Vorbereiten" in german and "Prepare" in english


def test_help_imports_neither_torch_nor_the_command_line_library(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom umsicht.cli.main import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n"
        "    print('LOADED', sorted({'torch', 'numpy', 'cyclopts', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "LOADED []"


def heeds_interrupts() -> None:
    """A shell's background job ignores SIGINT, and so does all that it starts: here it is to be heard wherever the tests run."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupt_says_that_what_was_finished_is_kept(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "one.txt").write_text("A text of one sentence.\n")
    (tmp_path / "recipe.yaml").write_text(
        "name: stopped\npreset: tiny\ncorpus: {sources: [{name: text, kind: files, path: text}]}\n"
    )
    (tmp_path / "stopped.py").write_text(
        "import os, signal\nfrom umsicht.cli import main\nfrom umsicht.record import Store\n"
        "Store.build = lambda *_, **__: os.kill(os.getpid(), signal.SIGINT)\n"  # a real signal, at a place that is known
        "main(['run', 'recipe.yaml'])"
    )
    done = subprocess.run(
        [sys.executable, "stopped.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "UMSICHT_LANG": "en"},
        preexec_fn=heeds_interrupts,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (130, False)
    assert "Interrupted" in done.stderr


def test_an_interrupt_inside_the_exec_of_a_library_ends_with_the_documented_code(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(
        "import sys\nfrom umsicht.cli import main\n"
        "sys.modules['umsicht.cli.main']._dispatch = lambda arguments: exec('raise KeyboardInterrupt')\n"
        "main([])"
    )
    command = [
        sys.executable,
        "-m",
        "interrupted",
    ]  # only a module's run ends by the signal; a file's does not
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (130, False)


def test_a_short_write_of_numpy_is_told_as_a_full_disk() -> None:
    explained = _explain_os_error(OSError("50368 requested and 39920 written"))
    assert "disk is full" in explained.what


@pytest.mark.parametrize("verb", ["verify", "gc", "runs", "experiment tree"])
def test_a_mistyped_folder_is_no_project_in_which_all_is_well(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*verb.split(), str(tmp_path / "nope")])
    assert ended.value.code == 2
    assert "nope" in capsys.readouterr().err


def test_a_run_with_a_damaged_manifest_is_named_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "manifest.json").write_text("{bad")
    with pytest.raises(SystemExit) as ended:
        main(["show", str(tmp_path)])
    assert ended.value.code == 2
    assert "manifest.json" in capsys.readouterr().err
