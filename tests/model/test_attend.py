"""Attention by whole products says what the definition says, value and gradient, and sees nothing that comes later."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.small import small_config, stirred
from torch import Tensor

from umsicht.model import attend


def drawn(length: int, head_dim: int = 32, dtype: torch.dtype = torch.bfloat16) -> list[Tensor]:
    """Queries, keys, values as they come from a projection: heads beside each other in memory."""
    torch.manual_seed(length)
    return [torch.randn(2, length, 3, head_dim, dtype=dtype).transpose(1, 2) for _ in range(3)]


def with_gradients(make: Callable[..., Tensor], inputs: list[Tensor]) -> list[Tensor]:
    """Value, and the gradient of a fixed weighting of it with respect to every input."""
    leaves = [value.clone().requires_grad_() for value in inputs]
    out = make(*leaves)
    weights = torch.linspace(-1.0, 2.0, out.numel()).to(out.dtype).reshape(out.shape)
    return [out.detach(), *torch.autograd.grad((out * weights).sum(), leaves)]


def fused_kernel(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


@pytest.mark.parametrize("length", [1, 2, 7, 64, 200])
def test_value_and_gradients_are_those_of_the_definition(length: int) -> None:
    inputs = drawn(length)
    exact = with_gradients(fused_kernel, [x.double() for x in inputs])
    ours, kernels = with_gradients(attend.causal, inputs), with_gradients(fused_kernel, inputs)
    for found, other, true in zip(ours, kernels, exact, strict=True):
        # Scores are rounded to bfloat16 here and kept in float32 by the kernel.
        assert float((found - true).norm()) <= max(2.5 * float((other - true).norm()), 1e-6)
        assert float((found - true).norm()) <= 0.02 * float(true.norm()) + 1e-6


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 80), st.data())
def test_what_comes_later_changes_nothing_before_it(length: int, data: st.DataObject) -> None:
    place = data.draw(st.integers(1, length - 1))
    inputs = drawn(length)
    others = [x.clone() for x in inputs]
    for other in others:
        other[:, :, place:] = 9.0
    before, after = (attend.causal(*x)[:, :, :place] for x in (inputs, others))
    assert torch.equal(before, after)


def test_under_autocast_the_backward_pass_fits_the_forward_pass() -> None:
    inputs = drawn(16)
    plain = with_gradients(attend.causal, inputs)
    with torch.autocast("cpu", torch.bfloat16):
        cast = with_gradients(attend.causal, inputs)
    assert all(torch.equal(a, b) for a, b in zip(plain, cast, strict=True))


def test_it_is_for_short_rows_of_bfloat16_only() -> None:
    query, key, _ = drawn(8)
    assert attend.suits(query, key)
    assert not attend.suits(query.float(), key.float())
    assert not attend.suits(query[:, :, -1:], key)
    longer = drawn(attend.LONGEST + 1, 4)
    assert not attend.suits(longer[0], longer[1])


@pytest.mark.parametrize(
    ("family", "used"), [("qwen3", True), ("fast", True), ("llama", False), ("gpt2", False)]
)
def test_scores_without_bound_are_left_to_the_kernel_that_keeps_them_in_float32(
    family: str, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    causal = attend.causal
    monkeypatch.setattr(attend, "causal", lambda *x: calls.append(1) or causal(*x))
    stirred(small_config(family)).bfloat16()(torch.arange(24).view(2, 12))
    assert bool(calls) is used


def test_a_model_in_bfloat16_gives_what_the_kernel_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    model = stirred(small_config("qwen3")).bfloat16()
    ids = torch.arange(24).remainder(model.config.vocab_size).view(2, 12)
    ours = model(ids).detach().float()
    monkeypatch.setattr(attend, "suits", lambda query, key: False)
    kernels = model(ids).detach().float()
    assert float((ours - kernels).norm()) <= 0.02 * float(kernels.norm())
