"""Jinja with our words and number formats. Everything that is not marked as markup is escaped."""

from __future__ import annotations

import functools
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from umsicht.dashboard import numbers
from umsicht.words import t


@functools.cache
def environment(lang: str) -> Environment:
    """The template environment of one language; `t` and the number filters speak it."""
    env = Environment(
        loader=PackageLoader("umsicht.dashboard", "templates"),
        autoescape=select_autoescape(["html"], default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.globals["t"] = functools.partial(t, lang=lang)
    env.globals["lang"] = lang
    env.filters["num"] = lambda value, digits=3: numbers.number(value, lang, digits)
    env.filters["signed"] = lambda value, digits=3: numbers.signed(value, lang, digits)
    env.filters["compact"] = lambda value: numbers.compact(value, lang)
    env.filters["size"] = lambda value: numbers.size(value, lang)
    env.filters["percent"] = lambda value, digits=1: numbers.percent(value, lang, digits)
    env.filters["duration"] = numbers.duration
    env.filters["svg"] = Markup
    return env


def render(template: str, lang: str, **context: Any) -> str:
    """A template as text."""
    return environment(lang).get_template(template).render(**context)
