"""Prompt sets: fixed beginnings of text, with a digest, so that nobody swaps the worst prompt after each change."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path

import orjson

from umsicht.findings import UserError
from umsicht.recipe.evaluate import SampleSettings
from umsicht.record.ids import content_id
from umsicht.words import t


@dataclass(frozen=True)
class Prompt:
    """A beginning that the model continues."""

    id: str
    language: str
    domain: str
    text: str


@dataclass(frozen=True)
class PromptSet:
    """Prompts in a fixed order; `digest` names exactly these."""

    name: str
    prompts: tuple[Prompt, ...]

    @property
    def digest(self) -> str:
        return content_id([asdict(prompt) for prompt in self.prompts])

    def only(self, languages: Collection[str]) -> PromptSet:
        """Those of some languages (`code` counts as one); the English ones where none would be left, else all."""
        kept = tuple(p for p in self.prompts if p.language in languages)
        kept = kept or tuple(p for p in self.prompts if p.language == "en") or self.prompts
        return PromptSet(self.name, kept)


CODE = "code"
PROGRAMMING = frozenset((
    "bash", "c", "cpp", "csharp", "css", "go", "haskell", "html", "java", "javascript", "julia", "kotlin", "lua", "matlab", "perl",
    "php", "python", "r", "ruby", "rust", "scala", "shell", "sql", "swift", "typescript",
))  # fmt: skip
"""Languages a corpus may name where the prompts say `code`."""


def for_corpus(settings: SampleSettings, slices: Iterable[str]) -> PromptSet:
    """The recipe's prompts in its own languages, else those of the corpus's slices: the one choice for training and evaluation alike."""
    languages = {_written_as(name) for name in settings.languages or slices}
    return load(settings.prompts).only(languages)


def _written_as(name: str) -> str:
    """What prompts call the language of a slice (`domain.language`) or a bare language: every programming language is `code`."""
    domain, _, language = name.rpartition(".")
    return CODE if domain == CODE or language in PROGRAMMING else language


def load(name: str = "default") -> PromptSet:
    """`default`, or a JSON file `{"schema": 1, "name": …, "prompts": [{"id", "language", "domain", "text"}, …]}`.

    Raises UserError where the file is missing or not of this form.
    """
    if name == "default":
        data = (resources.files("umsicht.evaluate") / "prompts" / "default.json").read_bytes()
    else:
        path = Path(name)
        if not path.is_file():
            raise UserError(t("evaluate.prompts_missing", file=name), fix=t("evaluate.prompts_missing.fix"))
        data = path.read_bytes()
    try:
        plain = orjson.loads(data)
        prompts = tuple(
            Prompt(str(p["id"]), str(p["language"]), str(p.get("domain", "")), str(p["text"]))
            for p in plain["prompts"]
        )
        title = str(plain.get("name", Path(name).stem))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            t("evaluate.prompts_broken", file=name), where=str(error), fix=t("evaluate.prompts_missing.fix")
        ) from None
    doubles = sorted({p.id for p in prompts if sum(q.id == p.id for q in prompts) > 1})
    if not prompts or doubles:
        raise UserError(
            t("evaluate.prompts_broken", file=name),
            where=", ".join(doubles) or "prompts: []",
            fix=t("evaluate.prompts_unique.fix"),
        )
    return PromptSet(title, prompts)
