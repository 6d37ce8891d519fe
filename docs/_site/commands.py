"""The reference page of the command line, from the signatures and docstrings that also make `--help`."""

from __future__ import annotations

import re

from umsicht.cli.main import build_app
from umsicht.cli.verbs import ALIASES, VERBS
from umsicht.words import set_language


def page() -> str:
    """Every verb with its arguments."""
    set_language("en")
    text = build_app("*").generate_docs(output_format="markdown", heading_level=1, recursive=True)
    head = (
        "# Command line\n\nWritten from the code: what `umsicht VERB --help` prints. Everywhere: `--lang en|de`, `--quiet`, `--debug`, `--version`. Exit codes: "
        "0 ok · 1 a verb that judges says no · 2 usage or recipe · 3 a gate stays shut or a guard stopped the run · 75 told to stop, saved, resumable · 130 interrupted by a person, saved, resumable.\n\n"
        "Also accepted: " + ", ".join(f"`{alias}` for `{verb}`" for alias, verb in ALIASES.items()) + ".\n\n"
    )
    first = min(
        (text.find(f"## umsicht {verb}") for verb in VERBS if f"## umsicht {verb}" in text), default=0
    )
    return head + re.sub(r"<(?!https?:)", r"\\<", text[first:])
