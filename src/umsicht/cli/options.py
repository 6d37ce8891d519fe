"""Options that several verbs share: settings overridden, gates passed, and numbers that must lie in a range."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from umsicht.findings import UserError
from umsicht.words import language, localise, t

Overrides = Annotated[list[str], Parameter(name="--set", negative=(), allow_leading_hyphen=True)]
Acknowledged = Annotated[list[str], Parameter(name="--acknowledge", negative=())]
Waived = Annotated[list[str], Parameter(name="--waive", negative=())]


def require(holds: bool, option: str, value: object, allowed: str) -> None:
    """Refuse the value of an option. `allowed` says what must hold, as in `0.5 < X ≤ 1`. Raises UserError."""
    if not holds:
        raise UserError(
            t("cli.out_of_range", option=option, value=value),
            fix=t("cli.out_of_range.fix", option=option, allowed=localise(allowed, language())),
        )
