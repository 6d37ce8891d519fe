"""Faults of a blind trial in somebody else's loop are named; their healthy twins are not."""

from __future__ import annotations

import pytest
import torch
from bench.faults.cases import CASES
from bench.faults.cases.foreign import Small
from bench.faults.cases.loops import looped
from bench.faults.healthy import LOOPS
from bench.faults.judge import judge
from bench.faults.work import plain
from torch import nn

from umsicht.guard import check
from umsicht.guard.probes.adam_rule import ADAM, RELATIVES

QUICK = {
    "X14-faint",
    "X15-faint",
    "X18-faint",
    "X19-faint",
    "X24-faint",
    "X26-loud",
    "X27-faint",
    "X28-faint",
    "X29-loud",
    "X31-faint",
    "X34-loud",
}
PLANTED = {case.name: case for case in CASES if case.fault in {f"X{n}" for n in (*range(14, 32), 34)}}
CALM = {"loop with dropout, recomputed", "loop that prefers"}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.long]) for n in PLANTED]
)
def test_planted_fault_is_named(name: str) -> None:
    case = PLANTED[name]
    assert case.foreign is not None
    report = check(**case.foreign())
    assert judge(case, {"named": plain(report)}) == "named", list(report)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in CALM else [pytest.mark.long]) for n in LOOPS]
)
def test_healthy_twin_is_quiet(name: str) -> None:
    assert plain(check(**LOOPS[name](), all=True)) == []


def test_the_functions_of_dropout_are_put_back() -> None:
    before = (nn.functional.dropout, nn.functional.scaled_dot_product_attention, torch.dropout)
    check(**looped(), only=("T11 slope", "T10"))
    assert before == (nn.functional.dropout, nn.functional.scaled_dot_product_attention, torch.dropout)


def test_a_model_without_any_positions_is_a_note() -> None:
    model = Small()
    model.place = nn.Embedding(1, 32)
    model.place.weight.requires_grad_(False).zero_()
    real = model.place.forward
    model.place.forward = lambda where: real(where * 0)  # type: ignore[method-assign]
    found = check(**looped(model=model), only=("T17 places",))
    assert [(f.id, f.grade) for f in found] == [("NUMERIC/positions-unseen", "note")]


def test_queries_scaled_before_the_call_are_no_wrong_scale() -> None:
    model = Small()
    plain_call = nn.functional.scaled_dot_product_attention

    for block in model.blocks:

        def forward(x: torch.Tensor, allowed: torch.Tensor, block: nn.Module = block) -> torch.Tensor:
            rows, seq, width = x.shape
            q, k, v = block.qkv(block.before(x)).view(rows, seq, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
            mixed = plain_call(q * (width // 2) ** -0.5, k, v, attn_mask=allowed, scale=1.0)
            x = x + block.out(mixed.transpose(1, 2).reshape(rows, seq, width))
            return x + block.down(nn.functional.gelu(block.up(block.after(x))))

        block.forward = forward
    assert plain(check(**looped(model=model), only=("T17",))) == []


@pytest.mark.parametrize(
    ("name", "asked"),
    [("AdamW", True), ("OwnAdam", True), ("FusedAdam", True), ("AdamW8bit", True)]
    + [(name, False) for name in ("RAdam", "NAdam", "AdaBelief", "StableAdamW", "Adamax", "AdEMAMix")],
)
def test_only_what_calls_itself_adam_is_asked_for_its_rule(name: str, asked: bool) -> None:
    assert bool(ADAM.search(name) and not RELATIVES.search(name)) is asked
