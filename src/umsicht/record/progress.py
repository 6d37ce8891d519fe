"""How long work says where it stands. Stages speak to this protocol; the command line draws it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """One stage at a time; `advance` is cheap enough to be called often."""

    def stage(self, name: str, total: float | None = None, unit: str = "") -> None:
        """Begin a stage of `total` units (None: unknown)."""

    def advance(self, n: float = 1, status: str = "") -> None:
        """`n` more units are done; `status` is a short live text (loss, rate)."""

    def note(self, text: str) -> None:
        """Print one line that stays."""

    def close(self) -> None:
        """End the current stage."""


class _Quiet:
    def stage(self, name: str, total: float | None = None, unit: str = "") -> None: ...
    def advance(self, n: float = 1, status: str = "") -> None: ...
    def note(self, text: str) -> None: ...
    def close(self) -> None: ...


QUIET: Progress = _Quiet()
