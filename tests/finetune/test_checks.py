"""Faults planted into a stage are found by the check that is meant for them; a healthy stage raises none."""

from __future__ import annotations

import pytest
import torch

from umsicht.finetune import checks, open_subject
from umsicht.finetune.stage import policy
from umsicht.model.lora import LoraLinear, adapters
from umsicht.recipe.finetune import StageSettings
from umsicht.tokenizer.chat import render, to_text

IDS = torch.arange(40)[None]
TALKS = [
    ({"role": "user", "content": "  Wie? "}, {"role": "assistant", "content": " So "}),
    (
        {"role": "system", "content": "S"},
        {"role": "user", "content": "Q"},
        {"role": "assistant", "content": "A"},
    ),
]


@pytest.fixture
def adapted(base):
    settings = StageSettings(data=["x"], lora={"r": 4, "alpha": 12})
    return policy(settings, open_subject(base))


def ids_of(found):
    return [finding.id for finding in found]


def test_a_healthy_stage_raises_nothing_and_is_left_as_it_was(base, adapted):
    before = {name: value.clone() for name, value in adapted.state_dict().items()}
    assert checks.adapter_algebra(adapted, open_subject(base).model, IDS) == []
    assert all(torch.equal(value, before[name]) for name, value in adapted.state_dict().items())
    assert checks.template(TALKS, open_subject(base).tokenizer) == []


def test_an_adapter_that_does_not_start_at_zero(base, adapted):
    with torch.no_grad():
        next(iter(adapters(adapted).values())).lora_b.add_(0.1)
    assert ids_of(checks.adapter_algebra(adapted, open_subject(base).model, IDS)) == ["ADAPTER/changes-base"]


def test_an_adapter_without_scale(base, adapted):
    for layer in adapters(adapted).values():
        layer.scale = 0.0
    assert ids_of(checks.adapter_algebra(adapted, open_subject(base).model, IDS)) == ["ADAPTER/no-effect"]


def test_rounding_is_judged_by_the_size_of_the_logits():
    def large(ids):
        return torch.full((*ids.shape, 3), 40.0)

    def rounded(ids):
        return large(ids) + 2e-5

    def wrong(ids):
        return large(ids) + 1e-3

    assert checks.same_logits("ADAPTER/merge-differs", rounded, large, IDS, "adapter") == []
    assert ids_of(checks.same_logits("ADAPTER/merge-differs", wrong, large, IDS, "adapter")) == [
        "ADAPTER/merge-differs"
    ]
    small = checks.same_logits(
        "ADAPTER/merge-differs", lambda i: rounded(i) - 39.9, lambda i: large(i) - 39.9, IDS, "a"
    )
    assert ids_of(small) == ["ADAPTER/merge-differs"]


@pytest.mark.parametrize("factor", [4 / 12, 2.0])
def test_a_merge_with_another_scale(base, adapted, monkeypatch, factor):
    def wrong(layer):
        return layer.weight + factor * layer.scale * layer.lora_b @ layer.lora_a

    monkeypatch.setattr(LoraLinear, "merged_weight", wrong)
    assert ids_of(checks.adapter_algebra(adapted, open_subject(base).model, IDS)) == ["ADAPTER/merge-differs"]


def test_a_base_that_is_not_frozen(base, adapted):
    adapted.norm.weight.requires_grad_(True)
    (finding,) = checks.adapter_algebra(adapted, open_subject(base).model, IDS)
    assert finding.id == "ADAPTER/base-learns" and finding.numbers["first"] == "norm.weight"


@pytest.mark.parametrize("fault", ["newline", "stripped", "whole"])
def test_two_renderers(base, fault):
    tokenizer = open_subject(base).tokenizer
    wrong = {
        "newline": lambda messages: [
            *render(messages, tokenizer, add_generation_prompt=True).ids,
            *tokenizer.encode("\n"),
        ],
        "stripped": lambda messages: (
            render(
                [{**m, "content": m["content"].strip()} for m in messages],
                tokenizer,
                add_generation_prompt=True,
            ).ids
        ),
        "whole": lambda messages: tokenizer.encode(to_text(messages, add_generation_prompt=True)),
    }[fault]
    found = checks.prompt_is_prefix(
        TALKS, lambda messages: render(messages, tokenizer).ids, wrong, tokenizer.decode
    )
    assert ids_of(found) == ["BOUNDARY-TOKEN/prompt-not-prefix"] and len(found[0].examples) == 2


def test_a_finding_names_what_was_measured(base, adapted):
    (finding,) = checks.same_logits(
        "ADAPTER/merge-differs", adapted.eval(), lambda ids: adapted(ids) + 0.5, IDS, "here"
    )
    assert finding.numbers["difference"] == 0.5 and finding.grade == "stop"
