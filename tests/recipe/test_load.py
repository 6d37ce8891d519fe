"""A recipe's mistakes are answered with file, line and a suggestion."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umsicht.findings import UserError
from umsicht.recipe import (
    PRESETS,
    Recipe,
    json_schema,
    load_recipe,
    preset_text,
    recipe_from_text,
    section_from,
)
from umsicht.recipe.finetune import StageSettings
from umsicht.words import set_language


def error_of(text: str, *overrides: str) -> UserError:
    with pytest.raises(UserError) as caught:
        recipe_from_text(text, "recipe.yaml", overrides)
    return caught.value


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_a_valid_recipe(preset: str) -> None:
    by_name = recipe_from_text(f"name: x\npreset: {preset}\n", "r.yaml")
    copied = recipe_from_text(f"name: x\n{preset_text(preset)}", "r.yaml")
    assert by_name == copied


def test_an_unknown_key_is_refused_at_its_line_with_the_nearest_known_one() -> None:
    error = error_of("name: x\ntokenizer:\n  # comment\n  vocab_siz: 9\n")
    assert error.where == "recipe.yaml:4"
    assert "vocab_size" in error.fix


def test_a_value_of_the_wrong_kind_is_refused_at_its_line() -> None:
    error = error_of("name: x\ntokenizer:\n  vocab_size: many\n")
    assert error.where == "recipe.yaml:3"
    assert "tokenizer.vocab_size" in error.what


def test_broken_yaml_names_the_line() -> None:
    assert error_of("name: x\nmodel: [1, 2\n").where.startswith("recipe.yaml:")


def test_an_override_beats_the_file_and_the_file_beats_the_preset() -> None:
    preset = recipe_from_text("name: x\npreset: tiny\n", "r")
    ours = recipe_from_text("name: x\npreset: tiny\ntokenizer: {vocab_size: 700}\n", "r")
    forced = recipe_from_text(
        "name: x\npreset: tiny\ntokenizer: {vocab_size: 700}\n", "r", ["tokenizer.vocab_size=800"]
    )
    assert (ours.tokenizer.vocab_size, forced.tokenizer.vocab_size) == (700, 800)
    assert ours.train == preset.train


@pytest.mark.parametrize("preset", PRESETS)
def test_one_form_of_the_budget_takes_the_place_of_the_presets(preset: str) -> None:
    text = f"name: x\npreset: {preset}\n"
    in_file = recipe_from_text(f"{text}train: {{budget: {{minutes: 3}}}}\n", "r")
    forced = recipe_from_text(text, "r", ["train.budget.steps=5", "train.budget.minutes=3"])
    assert in_file.train.budget.minutes == 3
    assert forced.train.budget == in_file.train.budget
    assert recipe_from_text(text, "r", ["train.budget.minutes=3", "train.budget.tokens=null"]) == forced


@pytest.mark.parametrize(
    ("text", "english", "german"),
    [
        ("tokenizer: {vocab_size: many}", "must be a whole number", "muss eine ganze Zahl sein"),
        ("train: {schedule: {cycles: 0}}", "must be greater than 0", "muss größer als 0 sein"),
        ("train: {schedule: {shape: round}}", "`wsd`, `cosine`", "muss `wsd`, `cosine`"),
        ("train: {budget: {steps: 1, epochs: 1}}", "exactly one of steps", "genau eines von steps"),
        ("corpus: {sources: [{name: a}]}", "source “a” needs a path", "der Quelle „a“ fehlt ihr path"),
    ],
)
def test_what_is_wrong_with_a_value_is_said_in_the_readers_language(
    text: str, english: str, german: str
) -> None:
    try:
        for code, sentence in (("en", english), ("de", german)):
            set_language(code)
            assert sentence in error_of(f"name: x\n{text}\n").what
    finally:
        set_language(None)


@pytest.mark.parametrize("override", ["tokenizer.vocab_size", "=3", "tokenizer.vocab_sizes=3"])
def test_a_wrong_override_is_an_error(override: str) -> None:
    assert error_of("name: x\n", override).exit_code == 2


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.yaml"):
        load_recipe(tmp_path / "none.yaml")


def test_a_recipe_cannot_be_changed_after_loading() -> None:
    recipe = Recipe(name="x")
    with pytest.raises(ValueError, match="frozen"):
        recipe.name = "y"  # type: ignore[misc]  # that it is refused is the point


def test_every_setting_has_a_description() -> None:
    undescribed = []

    def visit(schema: dict[str, object], path: str) -> None:
        properties = schema.get("properties")
        if isinstance(properties, dict):
            for key, value in properties.items():
                if "description" not in value and "$ref" not in str(value):
                    undescribed.append(f"{path}.{key}")

    schema = json_schema()
    for name, definition in schema["$defs"].items():
        visit(definition, name)
    assert not undescribed


@given(st.text(max_size=200))
def test_no_text_makes_the_loader_fail_otherwise_than_with_a_user_error(text: str) -> None:
    try:
        recipe_from_text(text, "r.yaml")
    except UserError as error:
        assert error.what


@pytest.mark.parametrize(
    ("override", "what", "fix"),
    [
        ("epoch=2", "epoch", "epochs"),
        ("lora.aplha=4", "lora.aplha", "alpha"),
        ("epochs=many", "epochs", "umsicht explain"),
        ("epochs", "epochs", "--set"),
        ("epochs=[", "--set epochs", ""),
    ],
)
def test_a_section_of_its_own_is_judged_like_a_recipe(override: str, what: str, fix: str) -> None:
    with pytest.raises(UserError) as caught:
        section_from(StageSettings, {"method": "sft", "data": ["rows.jsonl"], "lora": {}}, [override])
    assert what in f"{caught.value.what} {caught.value.where}" and fix in caught.value.fix


def test_a_section_of_its_own_takes_overrides() -> None:
    made = section_from(StageSettings, {"method": "sft", "data": ["rows.jsonl"]}, ["lora.r=4", "epochs=3"])
    assert made.lora is not None and (made.lora.r, made.epochs) == (4, 3)


@pytest.mark.parametrize(
    ("method", "override", "fits"),
    [
        ("sft", "beta=0.5", False),
        ("dpo", "beta=0.5", True),
        ("dpo", "kl=0.1", False),
        ("sft", "beta=0.1", True),
    ],
)
def test_a_setting_that_another_method_reads_is_refused_unless_it_changes_nothing(
    method: str, override: str, fits: bool
) -> None:
    plain = {"method": method, "data": ["rows.jsonl"]}
    if fits:
        made = section_from(StageSettings, plain, [override])
        assert StageSettings.model_validate(made.plain()) == made
    else:
        with pytest.raises(UserError, match=r"setting of method|Einstellung der Methode"):
            section_from(StageSettings, plain, [override])


def test_an_adapter_beside_a_layer_that_no_model_has_is_refused() -> None:
    with pytest.raises(UserError) as caught:
        section_from(StageSettings, {"data": ["rows.jsonl"], "lora": {"targets": ["q_prj", "v_proj"]}}, [])
    assert "targets" in f"{caught.value.what} {caught.value.where}"
