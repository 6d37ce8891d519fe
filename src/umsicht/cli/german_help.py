"""The frame of German help: usage line, value kinds, defaults and what must be given, which the parser's library writes in English."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cyclopts.help import DefaultFormatter, HelpEntry, HelpPanel
from cyclopts.help.specs import ColumnSpec, DescriptionRenderer, get_default_parameter_columns
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

KINDS = {
    "STR": "TEXT",
    "INT": "ZAHL",
    "FLOAT": "ZAHL",
    "PATH": "PFAD",
    "BOOL": "JA|NEIN",
    "CHOICE": "AUSWAHL",
}
FRAME = {"Usage:": "Aufruf:", "[OPTIONS]": "[OPTIONEN]", "COMMAND": "BEFEHL", "[ARGS]": "[ARGUMENTE]"}
VALUES = {"False": "nein", "True": "ja", "None": "keine"}


class GermanHelp:
    """A formatter of cyclopts: its own panels, with German words in them."""

    def __init__(self) -> None:
        self._parameters = DefaultFormatter(column_specs=_columns)
        self._commands = DefaultFormatter()

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print one panel."""
        formatter = self._parameters if panel.format == "parameter" else self._commands
        formatter(console, options, panel.copy(entries=[_named(entry) for entry in panel.entries]))

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """Print the usage line."""
        if usage:
            words = re.split(r"(\s+)", f"Usage: {usage}" if "Usage:" not in str(usage) else str(usage))
            line = "".join(FRAME.get(word) or _kind(word) or word for word in words)
            console.print(Text(line, style="bold"))

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:
        """Print the description."""
        self._commands.render_description(console, options, description)


def _named(entry: HelpEntry) -> HelpEntry:
    """With the kind of its value in German; the oldest cyclopts that we take shows no kinds."""
    metavar = getattr(entry, "metavar", None)
    return entry.copy(metavar=_kind(metavar)) if metavar else entry


def _kind(metavar: str | None) -> str | None:
    if metavar is None:
        return None
    return re.sub(r"^[A-Z]+", lambda word: KINDS.get(word[0], word[0]), metavar)


def _columns(console: Console, options: ConsoleOptions, entries: list[HelpEntry]) -> tuple[ColumnSpec, ...]:
    """The parser's own columns with a German description."""
    columns = get_default_parameter_columns(console, options, entries)
    last = columns[-1].copy(renderer=_described)
    return (*columns[:-1], last)


def _described(entry: HelpEntry) -> Any:
    """The description with what may be given, what is taken otherwise, and whether it must be given."""
    said: Any = DescriptionRenderer()(entry.copy(choices=(), default=None, env_var=(), required=False))
    for text, style in _extras(entry):
        said.append(Text(text, style=style))
    return said


def _extras(entry: HelpEntry) -> list[tuple[str, str]]:
    said = [(f"[eines von {', '.join(entry.choices)}]", "cyclopts.choices")] if entry.choices else []
    if entry.default not in (None, '""'):
        said.append((f"[Vorgabe: {VALUES.get(str(entry.default), str(entry.default))}]", "cyclopts.default"))
    if entry.required:
        said.append(("[nötig]", "cyclopts.required"))
    return said
