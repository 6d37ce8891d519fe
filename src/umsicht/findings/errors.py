"""The one exception that people see: what is wrong, where, why it matters, and the one next step."""

from __future__ import annotations

from umsicht.findings.exits import USAGE


class UserError(Exception):
    """Bad input or an impossible request. The command line prints its four parts and exits with `exit_code`; no traceback."""

    def __init__(
        self, what: str, where: str = "", why: str = "", fix: str = "", *, exit_code: int = USAGE
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.why = why
        self.fix = fix
        self.exit_code = exit_code

    def __str__(self) -> str:
        parts = [self.what]
        parts += [
            f"{label}: {text}"
            for label, text in (("where", self.where), ("why", self.why), ("fix", self.fix))
            if text
        ]
        return " | ".join(parts)
