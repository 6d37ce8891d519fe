"""German help of the verbs, from their English docstrings.

The docstring beside the code stays the one description of a verb; `words/de/help.json` holds the German sentence to each of its sentences. A sentence
without one is shown in English, so a new option is never without help; a test names the sentences that are missing.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from umsicht.words import catalogue

if TYPE_CHECKING:
    import cyclopts

PARAMETERS = "Parameters\n----------\n"
_ENGLISH: dict[Callable[..., Any], str] = {}


def translate(command: Callable[..., Any] | cyclopts.App) -> None:
    """Put German sentences into the docstrings of a verb and of everything inside it, and German heads over their lists."""
    german = catalogue("de", "help")
    for app in applications(command):
        app.group_commands, app.group_parameters, app.group_arguments = "Befehle", "Parameter", "Argumente"
    for function in functions(command):
        english = _ENGLISH.setdefault(function, inspect.cleandoc(function.__doc__ or ""))
        function.__doc__ = rebuilt(english, german)


def applications(command: Callable[..., Any] | cyclopts.App) -> Iterator[cyclopts.App]:
    """The applications of a verb, its own and those of its commands, where it has any."""
    import cyclopts

    if isinstance(command, cyclopts.App):
        yield command
        for name in command:
            if not name.startswith("-"):
                yield from applications(command[name])


def functions(command: Callable[..., Any] | cyclopts.App) -> Iterator[Callable[..., Any]]:
    """The function behind a verb, or those behind the commands of an application."""
    import cyclopts

    if not isinstance(command, cyclopts.App):
        yield command
        return
    if command.default_command is not None:
        yield command.default_command
    for name in command:
        if not name.startswith("-"):
            yield from functions(command[name])


def sentences(docstring: str) -> list[str]:
    """Everything in a docstring that is shown as help: paragraphs, then the description of each parameter."""
    paragraphs, entries = _parts(inspect.cleandoc(docstring))
    return [*paragraphs, *(text for _, text in entries)]


def rebuilt(english: str, german: dict[str, Any]) -> str:
    """The docstring with every sentence that has a German one replaced by it."""
    paragraphs, entries = _parts(english)
    text = "\n\n".join(german.get(one, one) for one in paragraphs)
    if entries:
        text += f"\n\n{PARAMETERS}" + "\n".join(
            f"{name}\n    {german.get(one, one)}" for name, one in entries
        )
    return text


def _parts(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    head, _, rest = text.partition(PARAMETERS)
    entries = re.findall(r"^(\S+)\n((?:    .*\n?)+)", rest, re.MULTILINE)
    return [_line(one) for one in head.strip().split("\n\n")], [(name, _line(body)) for name, body in entries]


def _line(text: str) -> str:
    return " ".join(text.split())
