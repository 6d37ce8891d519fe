"""Pages over the records: a self-contained report, a live server, a view for the terminal. Nothing here needs torch.

`report(run_folder, out)` writes one HTML file; `serve(folder)` answers a browser; both only read what a run wrote.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["report"]


def report(run_folder: Path | str, out: Path | str, lang: str | None = None, redact: bool = False) -> Path:
    """Write the self-contained HTML report of a run; see `umsicht.dashboard.html_report`."""
    from umsicht.dashboard.html_report import report as write

    return write(run_folder, out, lang, redact)
