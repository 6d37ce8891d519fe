"""The page that `umsicht` and `umsicht --help` print: every verb in the order of the way.

Written without the command-line library: it is the first thing a newcomer types, so it must appear at once.
"""

from __future__ import annotations

import shutil
import textwrap

from umsicht.cli.verbs import VERBS
from umsicht.words import t


def overview() -> str:
    """The verbs under the headings of their stages, wrapped to the terminal."""
    width = max(min(shutil.get_terminal_size().columns, 110), 40)
    name_width = max(map(len, VERBS)) + 4
    lines = [t("cli.overview.usage"), "", *textwrap.wrap(t("cli.about"), width)]
    stage = ""
    for name, verb in VERBS.items():
        if verb.stage != stage:
            stage = verb.stage
            lines += ["", t(f"cli.stage.{stage}")]
        head = f"  {name:<{name_width - 2}}"
        lines += textwrap.wrap(
            t(f"cli.verb.{name}"), width, initial_indent=head, subsequent_indent=" " * name_width
        )
    return "\n".join([*lines, "", *textwrap.wrap(t("cli.overview.more"), width)])
