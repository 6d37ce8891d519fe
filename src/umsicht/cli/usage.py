"""What is wrong with a command line, in one sentence of the reader's language, and the word that was probably meant."""

from __future__ import annotations

import difflib
from typing import Any, Literal, get_args, get_origin

from cyclopts import (
    CoercionError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from umsicht.cli.verbs import ALIASES, VERBS
from umsicht.findings.errors import UserError
from umsicht.words import t

KINDS: dict[Any, str] = {int: "whole", float: "number"}


def explain(error: Exception, arguments: list[str]) -> UserError:
    """The usage error behind what the parser raised; exit code 2."""
    verb = arguments[0] if arguments else ""
    if verb and verb not in VERBS and not verb.startswith("-"):
        near = difflib.get_close_matches(verb, [*VERBS, *ALIASES], 1)
        return UserError(t("cli.unknown_verb", verb=verb), fix=_meant(near) or "umsicht --help")
    chain = list(getattr(error, "command_chain", None) or [verb])
    sentence, near = _said(error, " ".join(["umsicht", *chain]).strip())
    return UserError(sentence, fix=_meant(near) or " ".join(["umsicht", *chain, "--help"]).replace("  ", " "))


def _meant(near: list[str]) -> str:
    return t("recipe.did_you_mean", name=near[0]) if near else ""


def _said(error: Exception, command: str) -> tuple[str, list[str]]:
    """The sentence, and the nearest known word where one is near."""
    if isinstance(error, UnknownOptionError):
        word = error.token.keyword or error.token.value
        known = [name for argument in error.argument_collection for name in argument.names]
        return t("cli.usage.option", command=command, option=word), difflib.get_close_matches(word, known, 1)
    if isinstance(error, UnknownCommandError) and error.unused_tokens and error.app is not None:
        known = [name for name in error.app if not name.startswith("-")]
        word = error.unused_tokens[0]
        said = t("cli.usage.command", command=command, word=word, known=", ".join(known))
        return said, difflib.get_close_matches(word, known, 1)
    return _about_a_value(error, command), []


def _about_a_value(error: Exception, command: str) -> str:
    if type(error) is MissingArgumentError and error.argument is not None:
        given = getattr(error, "keyword", None) or next(
            (x.keyword for x in error.argument.tokens if x.keyword), ""
        )
        if given:
            return t("cli.usage.value", option=given)
        return t("cli.usage.missing", command=command, name=_name(error.argument))
    if isinstance(error, CoercionError) and error.token is not None and (wanted := _wanted(error)):
        name = error.token.keyword or (_name(error.argument) if error.argument is not None else "")
        return t("cli.usage.kind", name=name, value=error.token.value, wanted=wanted)
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return t("cli.usage.unused", command=command, words=" ".join(error.unused_tokens))
    if isinstance(error, RepeatArgumentError):
        return t("cli.usage.twice", option=error.token.keyword or error.token.value)
    return t("cli.usage", message=str(error).strip() or type(error).__name__)


def _name(argument: Any) -> str:
    """A value that stands by its place is named in capitals, as in the help; an option by its name."""
    name: str = argument.name
    return name if argument.field_info.is_keyword_only else name.lstrip("-").upper()


def _wanted(error: CoercionError) -> str:
    if get_origin(error.target_type) is Literal:
        return t("cli.usage.one_of", choices=", ".join(str(one) for one in get_args(error.target_type)))
    kind = KINDS.get(error.target_type)
    return t(f"cli.usage.{kind}") if kind else ""
