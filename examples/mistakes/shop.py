"""What every story needs: a folder, `umsicht` as a process of its own with the command shown, and a word in two languages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umsicht.findings import Finding

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Words:
    """The same in English and German."""

    en: str
    de: str

    def __getitem__(self, lang: str) -> str:
        return self.de if lang == "de" else self.en


@dataclass(frozen=True)
class Told:
    """What a story showed: the finding, what was done, and one number before and after it."""

    finding: Finding | None
    seen: Words | None
    """What was printed where the answer is a refusal and no finding."""
    change: Words
    number: Words
    before: float
    after: float
    form: str = "{:.2f}"

    def shown(self, value: float) -> str:
        """A value as it is printed."""
        return self.form.format(value)


@dataclass(frozen=True)
class Story:
    """One of the thirteen mistakes, or a further one, which has no number."""

    number: int | None
    slug: str
    title: Words
    tell: Callable[[Shop], Told]

    @property
    def key(self) -> str:
        """What it is asked for by: its number, or its name."""
        return self.slug if self.number is None else str(self.number)


class CommandFailed(Exception):
    """A command ended in a way that the story does not expect."""


@dataclass
class Shop:
    """Where a story happens."""

    folder: Path
    lang: str = "en"
    quiet: bool = False

    def say(self, text: str) -> None:
        """One line."""
        if not self.quiet:
            print(text, flush=True)

    def write(self, name: str, text: str) -> Path:
        """A file of the story, shown where it is a recipe."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if path.suffix == ".yaml":
            self.say(f"# {name}\n" + "".join(f"    {line}\n" for line in text.strip().splitlines()))
        return path

    def rows(self, name: str, rows: Iterable[Mapping[str, Any]]) -> Path:
        """A JSONL file."""
        return self.write(name, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))

    def process(self, *command: str, expect: Iterable[int]) -> subprocess.CompletedProcess[str]:
        """Run Python with `command` in the story's folder. Raises CommandFailed on any other exit code."""
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            env={
                "OMP_NUM_THREADS": "1",  # a second thread costs such small models more than it gives
                **os.environ,
                "UMSICHT_LANG": self.lang,
                "OMP_WAIT_POLICY": "PASSIVE",
                "NO_COLOR": "1",
            },
        )
        if done.returncode not in tuple(expect):
            raise CommandFailed(
                f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
            )
        return done

    def umsicht(self, *arguments: str, expect: Iterable[int] = (0,)) -> str:
        """A verb; returns what it printed."""
        self.say("$ umsicht " + " ".join(f"'{one}'" if " " in one else one for one in arguments))
        return self.process("-m", "umsicht", *arguments, expect=expect).stdout

    def json(self, *arguments: str, expect: Iterable[int] = (0,)) -> Any:
        """A verb with --json; returns what it said."""
        self.say("$ umsicht " + " ".join(arguments))
        return json.loads(self.process("-m", "umsicht", *arguments, "--json", expect=expect).stdout)

    def refused(self, *arguments: str, expect: Iterable[int] = (2, 3)) -> Words:
        """A verb that is to refuse; returns the message."""
        self.say("$ umsicht " + " ".join(arguments))
        said = [
            self.process("-m", "umsicht", "--lang", lang, *arguments, expect=expect).stderr.strip()
            for lang in ("en", "de")
        ]
        return Words(*said)

    def newest_runs(self, project: str) -> list[Any]:
        """The runs of a project, newest first."""
        from umsicht.record.project import Project

        return list(Project(self.folder / project).runs())

    def newest_run(self, project: str) -> Any:
        """The newest run of a project."""
        return self.newest_runs(project)[0]


def pick(findings: Iterable[Mapping[str, Any]], identity: str) -> Finding:
    """The finding with this id. Raises LookupError naming those that are there."""
    found = [Finding.from_dict(dict(one)) for one in findings]
    for one in found:
        if one.id == identity:
            return one
    raise LookupError(
        f"{identity} was not found; there are {', '.join(one.id for one in found) or 'no findings'}"
    )


def gone(findings: Iterable[Mapping[str, Any]], identity: str) -> None:
    """Raises LookupError where the finding is still there."""
    if any(one["id"] == identity for one in findings):
        raise LookupError(f"{identity} is still there")
