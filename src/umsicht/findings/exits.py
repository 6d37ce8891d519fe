"""Exit codes: how a command tells its end to launchers and schedulers, which act on them (docs/survive.md)."""

from __future__ import annotations

OK = 0
FAILED = 1
USAGE = 2
"""The recipe, the options or a folder are wrong: before the first step."""
GUARD = 3
"""A guard stopped the run, or a fine-tuning stage was refused: a person must look."""
SAVED = 75
"""Told to stop, and the same command goes on: sysexits' EX_TEMPFAIL, "try again"."""
INTERRUPTED = 130
"""By a person, as shells number it; the same command goes on."""
