"""Optimizers: equal to their references, groups, decay where it belongs, masters."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from toy import ToyModel, ToySource

from umsicht.findings import UserError
from umsicht.recipe.train import OptimizerSettings
from umsicht.train.adamw import AdamW
from umsicht.train.alone import ALONE
from umsicht.train.groups import parameter_groups
from umsicht.train.muon import orthogonalise
from umsicht.train.objective import LanguageModelling
from umsicht.train.optimizer import Optimizer
from umsicht.train.reduction import clip


def gradients(model: nn.Module) -> None:
    LanguageModelling()(model, ToySource().batch(0)).objective.backward()


def test_adamw_gives_the_bits_of_torch() -> None:
    ours, theirs = ToyModel(), ToyModel()
    mine = AdamW(list(ours.parameters()), betas=(0.8, 0.95), epsilon=1e-9, weight_decay=0.1)
    reference = torch.optim.AdamW(
        theirs.parameters(), lr=0.01, betas=(0.8, 0.95), eps=1e-9, weight_decay=0.1, fused=True
    )
    for _ in range(3):
        for model in (ours, theirs):
            model.zero_grad()
            gradients(model)
        mine.step(0.01)
        reference.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("shape", [(16, 16), (16, 48), (48, 16)])
def test_orthogonalise_is_the_plain_newton_schulz(shape: tuple[int, int]) -> None:
    """The Gram form computes the same polynomial as the textbook iteration on the matrix itself."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = torch.randn(3, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    got = orthogonalise(x, 5)
    for matrix, ours in zip(x, got, strict=True):
        y = matrix / matrix.norm()
        y = y.T if shape[0] > shape[1] else y
        for _ in range(5):
            g = y @ y.T
            y = a * y + (b * g + c * g @ g) @ y
        y = y.T if shape[0] > shape[1] else y
        assert torch.allclose(ours, y, rtol=1e-9, atol=1e-9)
    values = torch.linalg.svdvals(got)
    assert values.max() < 1.3 and values.median() > 0.6


@pytest.mark.parametrize("shape", [(64, 64), (64, 192), (192, 64)])
def test_orthogonalise_in_bfloat16_points_where_float64_points(shape: tuple[int, int]) -> None:
    """Also for a matrix of few strong directions, as gradients are: singular values falling as 1/k."""
    x = torch.randn(3, *shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    x = u @ ((1 / torch.arange(1, s.shape[-1] + 1, dtype=torch.float64)).diag() @ v)
    exact = orthogonalise(x, 3)
    rounded = orthogonalise(x.bfloat16(), 3)
    assert rounded.dtype == torch.bfloat16
    assert float((rounded - exact).norm()) < 0.04 * float(exact.norm())


def test_masters_of_bfloat16_weights_move_in_float32_by_an_update_made_in_bfloat16() -> None:
    gradient = torch.randn(16, 16, generator=torch.Generator().manual_seed(3)).bfloat16()
    steps = []
    for dtype in (torch.bfloat16, torch.float32):
        layer = nn.Linear(16, 16, bias=False)
        nn.init.zeros_(layer.weight)
        moved = Optimizer(layer.to(dtype), OptimizerSettings(kind="muon", weight_decay=0.0))
        layer.weight.grad = gradient.to(dtype)
        moved.step(1.0)
        state = moved.state_tensors()
        assert state["weight/momentum"].dtype == torch.float32
        steps.append(state.get("weight/master", layer.weight.detach()))
    rounded, exact = steps
    assert rounded.dtype == torch.float32
    assert not torch.equal(rounded, exact)
    assert float((rounded - exact).norm()) < 0.04 * float(exact.norm())


def test_orthogonalise_keeps_zero() -> None:
    assert torch.equal(orthogonalise(torch.zeros(2, 4, 8), 3), torch.zeros(2, 4, 8))


def test_every_parameter_in_one_group_and_decay_on_matrices_only() -> None:
    model = ToyModel()
    groups = parameter_groups(model, OptimizerSettings())
    names = [n for g in groups for n in g.names]
    assert sorted(names) == sorted(n for n, _ in model.named_parameters())
    decays = {g.role: g.weight_decay for g in groups}
    assert decays["matrix"] > 0 and decays["embedding"] == decays["head"] == decays["vector"] == 0
    algorithms = {g.role: g.algorithm for g in groups}
    assert algorithms == {"matrix": "muon", "embedding": "adamw", "head": "adamw", "vector": "adamw"}


def test_a_tied_head_is_one_parameter() -> None:
    groups = parameter_groups(ToyModel(tied=True), OptimizerSettings())
    assert "head" not in {g.role for g in groups}


def test_frozen_parameters_stay_out() -> None:
    model = ToyModel()
    model.up.weight.requires_grad_(False)
    optimizer = Optimizer(model, OptimizerSettings())
    before = model.up.weight.clone()
    gradients(model)
    optimizer.step(1.0)
    assert "up.weight" not in optimizer.names and torch.equal(before, model.up.weight)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(UserError):
        Optimizer(model, OptimizerSettings())


def test_one_step_moves_every_parameter_at_its_own_rate() -> None:
    """At the first step AdamW moves each element that has a gradient by its rate (bias correction), so rates are visible."""
    model = ToyModel()
    settings = OptimizerSettings(
        kind="adamw", embedding_rate=0.3, head_rate=0.02, vector_rate=0.004, matrix_rate=0.001, weight_decay=0
    )
    optimizer = Optimizer(model, settings)
    before = {n: p.clone() for n, p in model.named_parameters()}
    gradients(model)
    optimizer.step(0.5)
    for group in optimizer.groups:
        for name, parameter in zip(group.names, group.parameters, strict=True):
            moved = (parameter - before[name]).abs().max().item()
            assert moved == pytest.approx(0.5 * group.rate, rel=1e-3), name


@pytest.mark.parametrize("limit", [0.5, 1000.0, None])
def test_clip_gives_exactly_the_smaller_norm(limit: float | None) -> None:
    model = ToyModel()
    gradients(model)
    parameters = list(model.parameters())
    norm = float(ALONE.gradient_norm(parameters))
    clipped = clip(parameters, norm, limit)
    after = float(ALONE.gradient_norm(parameters))
    assert clipped == (limit is not None and limit < norm)
    assert after == pytest.approx(min(norm, limit) if limit else norm, rel=1e-6)


def test_half_precision_weights_learn_through_masters() -> None:
    """Updates below half a unit in the last place of bfloat16 are not lost (fault OP6)."""
    model = ToyModel()
    model.up.weight.data = model.up.weight.data.bfloat16()
    optimizer = Optimizer(model, OptimizerSettings(kind="adamw", matrix_rate=1e-5, weight_decay=0))
    before = model.up.weight.clone()
    for _ in range(40):
        model.up.weight.grad = torch.ones_like(model.up.weight)
        optimizer.step(1.0)
    master = optimizer.state_tensors()["up.weight/master"]
    assert torch.allclose(before.float() - master, torch.full_like(master, 4e-4), rtol=1e-2)
    assert not torch.equal(model.up.weight, before)


def test_state_is_matched_by_name() -> None:
    optimizer = Optimizer(ToyModel(), OptimizerSettings())
    state = {k: v.clone() for k, v in optimizer.state_tensors().items()}
    renamed = {("x" + k if k.startswith("up") else k): v for k, v in state.items()}
    with pytest.raises(UserError, match=r"up\.weight"):
        optimizer.load_state_tensors(renamed)
    with pytest.raises(UserError, match="extra"):
        optimizer.load_state_tensors({**state, "extra/first": torch.zeros(1)})
