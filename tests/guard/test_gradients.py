"""Gradients are read, set aside and compared without a trace left on the model or its optimizer."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from umsicht.guard.gradients import gradients_of, relative_gap, scale_of, seen_by_steps, set_aside


def trained() -> nn.Linear:
    model = nn.Linear(3, 2)
    model(torch.ones(1, 3)).sum().backward()
    return model


def test_gradients_set_aside_come_back_after_an_error_too() -> None:
    model = trained()
    before = [parameter.grad for parameter in model.parameters()]
    with pytest.raises(ZeroDivisionError), set_aside(model):
        assert gradients_of(model) == {}
        model(torch.ones(1, 3)).mean().backward()
        raise ZeroDivisionError
    assert all(p.grad is kept for p, kept in zip(model.parameters(), before, strict=True))


def test_a_copy_of_the_gradients_does_not_move_with_them() -> None:
    model = trained()
    copy = gradients_of(model)
    model.zero_grad(set_to_none=False)
    assert bool(copy["weight"].all()) and not bool(model.weight.grad.any())


def test_every_step_is_seen_before_it_moves_the_weights_and_none_afterwards() -> None:
    model = trained()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    first = model.bias.detach().clone()
    with seen_by_steps(optimizer, lambda: model.bias.detach().clone()) as seen:
        optimizer.step()
        optimizer.step()
    optimizer.step()
    assert len(seen) == 2
    assert torch.equal(seen[0], first) and torch.equal(seen[1], first - 1)


def test_a_factor_and_a_missing_tensor_are_told_apart() -> None:
    one = {"a": torch.tensor([3.0, 4.0]), "b": torch.tensor([0.0])}
    twice = {name: 2 * value for name, value in one.items()}
    assert relative_gap(twice, one) == 1
    assert scale_of(twice, one) == (2, 1)
    assert relative_gap({"b": one["b"]}, one) >= 1
