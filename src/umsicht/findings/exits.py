"""Exit codes: how a command tells its end to launchers and schedulers, which act on them (docs/survive.md)."""

from __future__ import annotations

OK = 0
FAILED = 1
"""A verb that judges says no (check, diagnose, evaluate, …); a job gave up; or an error nobody foresaw."""
USAGE = 2
"""The recipe, the options or a folder are wrong: before the first step."""
GUARD = 3
"""A gate stays shut, or a guard stopped the run: a person must look, and starting again unchanged helps nobody."""
SAVED = 75
"""Told to stop, and the same command goes on: sysexits' EX_TEMPFAIL, "try again"."""
INTERRUPTED = 130
"""By a person, as shells number it; the same command goes on."""
