"""`umsicht watch RUN`: the live view in a terminal."""

from __future__ import annotations

from umsicht.cli.projects import find_run


def watch(run: str, *, every: float = 2.0, once: bool = False, json: bool = False) -> int:
    """Watch a run live in the terminal: verdict, figures, curves per slice. Needs no browser.

    Parameters
    ----------
    run
        A run's folder or name, or a project's folder (its newest run).
    every
        Seconds between two looks.
    once
        Look once and end; without a terminal this prints plain lines.
    json
        Print what is seen once, as JSON.
    """
    from umsicht.cli.output import print_json
    from umsicht.dashboard.watching import look, watch_run

    folder = find_run(run).folder
    if json:
        print_json(look(folder))
        return 0
    return watch_run(folder, every=every, once=once)
