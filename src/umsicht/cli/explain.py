"""`umsicht explain`: a finding or a setting in words, offline."""

from __future__ import annotations

import difflib
import inspect

from rich.text import Text

from umsicht.cli.output import console, print_json
from umsicht.findings import UserError, entry, known_ids, unmeasured
from umsicht.recipe import Recipe
from umsicht.recipe.load import models_in
from umsicht.words import t


def explain(name: str, *, json: bool = False) -> int:
    """Explain a finding (`TARGET-SHIFT/…`) or a setting (`train.steps`).

    Parameters
    ----------
    name
        A finding's id, its slug alone, or the dotted name of a setting.
    json
        Print JSON.
    """
    found = _finding(name)
    if found is not None:
        identity, words = found
        if json:
            print_json({"id": identity, **words})
        else:
            _print_finding(identity, words)
        return 0
    setting = _setting(name)
    if setting is not None:
        print_json(setting) if json else print("\n".join(f"{key}: {value}" for key, value in setting.items()))
        return 0
    near = difflib.get_close_matches(name, [*known_ids(), *_settings()], 3, 0.4)
    raise UserError(
        t("cli.explain.unknown", name=name), fix=t("cli.explain.unknown.fix", near=", ".join(near) or "—")
    )


def _finding(name: str) -> tuple[str, dict[str, object]] | None:
    wanted = name.lower()
    for identity in known_ids():
        if wanted in (identity.lower(), identity.partition("/")[2].lower()):
            return identity, entry(identity) or {}
    return None


def _print_finding(identity: str, words: dict[str, object]) -> None:
    def said(part: str, otherwise: str = "") -> str:
        return unmeasured(str(words.get(part, otherwise)))

    out = console()
    out.print(Text.assemble((said("title", identity), "bold"), (f"  [{identity}]", "dim")))
    out.print(Text(said("seen")))
    out.print(Text.assemble((f"\n{t('cli.explain.why')}: ", "bold"), said("why")))
    causes = words.get("causes")
    if isinstance(causes, list) and causes:
        out.print(Text(f"\n{t('cli.explain.causes')}:", style="bold"))
        for number, cause in enumerate(causes, 1):
            out.print(Text(f"  {number}. {unmeasured(str(cause))}"))
    out.print(Text.assemble((f"\n{t('cli.explain.next')}: ", "bold"), said("next")))


def _settings() -> dict[str, tuple[str, str, str]]:
    """Dotted name → (type, default, description) of every setting of a recipe."""
    found: dict[str, tuple[str, str, str]] = {}

    def visit(model: type, prefix: str) -> None:
        for key, field in model.model_fields.items():  # type: ignore[attr-defined]  # pydantic model class
            nested = models_in(field.annotation)
            annotation = inspect.formatannotation(field.annotation)
            default = "" if nested else repr(field.default)
            found[prefix + key] = (annotation, default, field.description or "")
            for inner in nested:
                visit(inner, f"{prefix}{key}.")

    visit(Recipe, "")
    return found


def _setting(name: str) -> dict[str, str] | None:
    found = _settings().get(name)
    if found is None:
        return None
    annotation, default, description = found
    return {"setting": name, "type": annotation, "default": default, "description": description}
