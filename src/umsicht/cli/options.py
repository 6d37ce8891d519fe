"""Options that several verbs share: settings overridden and gates passed on the command line."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

Overrides = Annotated[list[str], Parameter(name="--set", negative=(), allow_leading_hyphen=True)]
Acknowledged = Annotated[list[str], Parameter(name="--acknowledge", negative=())]
Waived = Annotated[list[str], Parameter(name="--waive", negative=())]
