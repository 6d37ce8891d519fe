"""The whole recipe: what is wanted, in one file."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from umsicht.recipe.base import Section
from umsicht.recipe.corpus import CorpusSettings
from umsicht.recipe.evaluate import EvaluateSettings
from umsicht.recipe.finetune import FinetuneSettings
from umsicht.recipe.guard import GuardSettings
from umsicht.recipe.model import ModelSettings
from umsicht.recipe.parallel import ParallelSettings
from umsicht.recipe.plan import PlanSettings
from umsicht.recipe.tokenizer import TokenizerSettings
from umsicht.recipe.tokens import TokensSettings
from umsicht.recipe.train import TrainSettings

PRESETS = ("tiny", "quickstart", "single-gpu", "multi-gpu")
"""Names that `preset:` accepts."""


class Recipe(Section):
    """One recipe drives every stage; each section belongs to one room of the house."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    """Name of the project; artifacts, runs and the default folder are called after it."""

    seed: int = Field(default=0, ge=0, lt=2**31)
    """Seed of initialisation and dropout. The order of data has its own seed in `tokens`."""

    corpus: CorpusSettings = CorpusSettings()
    tokenizer: TokenizerSettings = TokenizerSettings()
    tokens: TokensSettings = TokensSettings()
    model: ModelSettings = ModelSettings()
    train: TrainSettings = TrainSettings()
    parallel: ParallelSettings = ParallelSettings()
    check: GuardSettings = GuardSettings()
    plan: PlanSettings = PlanSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    finetune: FinetuneSettings = FinetuneSettings()

    @field_validator("parallel", mode="before")
    @classmethod
    def _auto_is_a_word(cls, value: Any) -> Any:
        """`parallel: auto` is short for `parallel: {layout: auto}`."""
        return {"layout": "auto"} if value == "auto" else value


def json_schema() -> dict[str, Any]:
    """JSON schema of a recipe, for editors."""
    schema = Recipe.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Umsicht recipe"
    schema["properties"]["preset"] = {
        "type": "string",
        "enum": list(PRESETS),
        "description": "Settings to start from; the recipe's own lines override them.",
    }
    return schema
