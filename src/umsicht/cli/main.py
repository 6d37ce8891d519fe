"""The entry point: finds the verb, speaks the right language, turns errors into four lines and exit codes.

Exit codes: 0 ok · 1 a verb that judges says no · 2 usage or recipe · 3 a gate stays shut or a guard stopped the run · 75 told to stop, saved (train) · 130 interrupted after saving.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from umsicht import __version__
from umsicht.cli.overview import overview
from umsicht.cli.verbs import ALIASES, VERBS
from umsicht.findings import exits
from umsicht.findings.errors import UserError
from umsicht.words import LANGUAGES, language, set_language, t

if TYPE_CHECKING:
    import cyclopts

_SHORT_WRITE = re.compile(r"\b\d+ requested and \d+ written\b")
"""What numpy says, without an error number, where the disk fills in mid-write."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    arguments, debug = _global_options(list(sys.argv[1:] if argv is None else argv))
    _quiet_dependencies()
    try:
        code = _dispatch(arguments)
    except UserError as error:
        _show(error)
        code = error.exit_code
    except KeyboardInterrupt:
        # An interrupt inside a library's exec() leaves CPython bent on dying by SIGINT at exit; the next exec() clears that.
        exec("")
        print(t("cli.interrupted"), file=sys.stderr)
        code = exits.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = exits.OK
    except OSError as error:
        if debug:
            traceback.print_exc()
        _show(_explain_os_error(error))
        code = exits.USAGE
    except Exception as error:
        if _is_shut_gate(error):
            from umsicht.cli.walks import show_gate

            sys.exit(show_gate(error, json="--json" in arguments))
        if debug:
            raise
        told = _told(error)
        _show(told or _unexpected(error))
        code = told.exit_code if told else exits.FAILED
    sys.exit(code)


def _told(error: Exception) -> UserError | None:
    """What a missing library means for the user; None for any other error."""
    if not isinstance(error, ModuleNotFoundError):
        return None
    from umsicht.cli.missing import explain

    return explain(error)


def _unexpected(error: Exception) -> UserError:
    return UserError(
        t("cli.unexpected", kind=type(error).__name__, message=error),
        where=_innermost(error),
        fix=t("cli.unexpected.fix"),
    )


def _is_shut_gate(error: Exception) -> bool:
    """Whether a stage that the verb needed stopped at its gate; asked only where the pipeline is loaded already."""
    walk = sys.modules.get("umsicht.pipeline.walk")
    return walk is not None and isinstance(error, walk.GateClosedError)


def _global_options(arguments: list[str]) -> tuple[list[str], bool]:
    """Take `--lang`, `--debug`, `--quiet` out of the arguments, wherever they stand before a `--`."""
    kept: list[str] = []
    debug = bool(os.environ.get("UMSICHT_DEBUG"))
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        if argument == "--":
            kept += arguments[position:]
            break
        if argument == "--debug":
            debug = True
        elif argument == "--quiet":
            os.environ["UMSICHT_QUIET"] = "1"
        elif argument == "--lang" and position + 1 < len(arguments):
            _choose_language(arguments[position + 1])
            position += 1
        elif argument.startswith("--lang="):
            _choose_language(argument.partition("=")[2])
        else:
            kept.append(argument)
        position += 1
    return kept, debug


def _choose_language(code: str) -> None:
    if code not in LANGUAGES:
        set_language(None)
        _show(UserError(t("cli.language", code=code), fix="--lang en | --lang de"))
        sys.exit(exits.USAGE)
    os.environ["UMSICHT_LANG"] = code
    set_language(code)


def _quiet_dependencies() -> None:
    """No library of ours may phone home or fetch anything behind the user's back."""
    for name in ("HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK", "HF_HUB_DISABLE_IMPLICIT_TOKEN", "WANDB_SILENT"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")


def _dispatch(arguments: list[str]) -> int:
    if arguments and arguments[0] in ALIASES:
        arguments[0] = ALIASES[arguments[0]]
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(overview())
        return exits.OK
    if arguments[0] == "--version":
        print(__version__)
        return exits.OK
    app = build_app(arguments[0])
    try:
        result = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except SystemExit as stop:
        return int(stop.code or 0)
    except Exception as error:
        if type(error).__module__.startswith("cyclopts"):
            from umsicht.cli.usage import explain

            raise explain(error, arguments) from None
        raise
    return int(result) if isinstance(result, int) and not isinstance(result, bool) else exits.OK


def build_app(verb: str | None) -> cyclopts.App:
    """The command-line application; only the module of `verb` is imported (all of them where `verb` is `*`)."""
    import cyclopts

    app = cyclopts.App(
        name="umsicht",
        help=t("cli.about"),
        help_format="plaintext",
        suppress_keyboard_interrupt=False,
    )
    german = language() == "de"
    if german:
        from umsicht.cli.german_help import GermanHelp

        app.group_commands, app.group_parameters = "Befehle", "Parameter"
        app.help_formatter = GermanHelp()
    for name, line in VERBS.items():
        if verb in (name, "*"):
            command = line.load()
            if german:
                from umsicht.cli.german import translate

                translate(command)
            app.command(command, name=name)
        else:
            app.command(_stub(t(f"cli.verb.{name}")), name=name)
    return app


def _stub(sentence: str) -> Callable[[], None]:
    def unloaded() -> None:
        raise AssertionError("a verb that is called is always loaded")

    unloaded.__doc__ = sentence
    return unloaded


def _explain_os_error(error: OSError) -> UserError:
    where = str(error.filename or "")
    if error.errno in (errno.ENOSPC, errno.EDQUOT) or _SHORT_WRITE.search(str(error)):
        return UserError(
            t("cli.disk_full"), where=where, why=t("cli.disk_full.why"), fix=t("cli.disk_full.fix")
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return UserError(t("cli.no_permission"), where=where, fix=t("cli.no_permission.fix"))
    if isinstance(error, FileNotFoundError):
        return UserError(
            t("cli.not_found", what=(error.strerror and where) or error), fix=t("cli.not_found.fix")
        )
    return UserError(t("cli.os_error", message=error.strerror or error), where=where)


def _innermost(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "umsicht" in frame.filename] or frames
    return f"{'/'.join(ours[-1].filename.split('/')[-2:])}:{ours[-1].lineno}" if ours else ""


def _show(error: UserError) -> None:
    """Four lines: what, where, why, fix; those that are empty are left out."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(Text.assemble((t("cli.error") + " ", "bold red"), error.what))
    for label in ("where", "why", "fix"):
        text = getattr(error, label)
        if text:
            console.print(Text.assemble((f"  {t('cli.error.' + label):<8}", "dim"), text))
