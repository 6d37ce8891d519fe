"""The fused normalisation and rotation say what the plain ones say: value and gradient, against float64 and against the whole model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.model.small import small_config, stirred
from torch import Tensor

from umsicht.model import fused
from umsicht.model.layers import RMSNorm, Rotary, rotate

Made = tuple[Tensor, list[Tensor]]


def with_gradients(make: Callable[..., Tensor], inputs: list[Tensor]) -> Made:
    """Value, and the gradient of a fixed weighting of it with respect to every input."""
    leaves = [value.clone().requires_grad_() for value in inputs]
    out = make(*leaves)
    weights = torch.linspace(-1.0, 2.0, out.numel(), dtype=out.dtype).reshape(out.shape)
    return out.detach(), list(torch.autograd.grad((out * weights).sum(), leaves))


def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on nothing is fused."""
    monkeypatch.setattr(fused, "fuses", lambda *tensors: False)


def off(found: Made, exact: Made) -> list[float]:
    """Largest difference of value and gradients, as a share of the largest entry."""
    pairs = zip([found[0], *found[1]], [exact[0], *exact[1]], strict=True)
    return [float((a - b).abs().max() / b.abs().max()) for a, b in pairs]


@pytest.mark.parametrize("has_weight", [True, False])
@pytest.mark.parametrize("offset", [0.0, 5.0])
def test_the_norm_is_as_exact_as_the_plain_one(has_weight: bool, offset: float) -> None:
    torch.manual_seed(3)
    x = torch.randn(3, 20, 48) + offset
    inputs = [x, torch.randn(48)] if has_weight else [x]

    def make(x: Tensor, weight: Tensor | None = None) -> Tensor:
        return fused.rms_norm(x, weight, 1e-6)

    def definition(x: Tensor, weight: Tensor | None = None) -> Tensor:
        normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        return normed if weight is None else weight * normed

    exact = with_gradients(definition, [value.double() for value in inputs])
    for found, plain in zip(
        off(with_gradients(make, inputs), exact), off(with_gradients(definition, inputs), exact), strict=True
    ):
        assert found <= max(2e-6, 3 * plain)


def test_a_row_of_zeros_has_a_finite_gradient() -> None:
    x = torch.zeros(1, 1, 8, requires_grad=True)
    out = fused.rms_norm(x, torch.ones(8), 1e-6)
    out.sum().backward()
    assert x.grad is not None
    assert torch.allclose(x.grad, torch.full_like(x, 1e3), rtol=1e-4)


@pytest.mark.parametrize("direction", [1.0, -1.0])
def test_the_rotation_is_as_exact_as_the_plain_one(direction: float) -> None:
    torch.manual_seed(4)
    cos, sin = Rotary(16, 10_000.0, direction)(torch.arange(12))
    x = torch.randn(2, 12, 3, 16).transpose(1, 2)
    first, second = x.double().chunk(2, dim=-1)
    exact = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    found, gradients = with_gradients(lambda x: rotate(x, cos, sin), [x])
    assert float((found - exact).abs().max()) < 1e-6
    # A rotation turned back is where it began, and its gradient is the rotation back.
    weights = torch.linspace(-1.0, 2.0, x.numel()).reshape(x.shape)
    torch.testing.assert_close(gradients[0], fused.rotate(weights, cos, -sin), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(fused.rotate(found, cos, -sin), x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", ["qwen3", "nanochat", "fast", "llama"])
def test_a_whole_model_has_the_same_gradients(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = stirred(small_config(family))
    ids = torch.randint(0, 120, (2, 24), generator=torch.Generator().manual_seed(2))

    def gradients() -> list[Tensor]:
        loss = torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten().roll(-1))
        return list(torch.autograd.grad(loss, list(model.parameters()), allow_unused=True))

    found = gradients()
    plainly(monkeypatch)
    for mine, plain in zip(found, gradients(), strict=True):
        torch.testing.assert_close(mine, plain, rtol=2e-4, atol=2e-6)


def test_evaluation_gives_what_training_gives() -> None:
    norm = RMSNorm(16, 1e-6, True)
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        quiet = norm(x)
    assert torch.equal(norm(x.clone().requires_grad_()), quiet)


@pytest.mark.parametrize("has_weight", [True, False])
def test_the_norm_of_bfloat16_is_as_exact_as_the_plain_one_over_many_rows(has_weight: bool) -> None:
    torch.manual_seed(5)
    x = torch.randn(4, 512, 48, dtype=torch.bfloat16)
    inputs = [x, torch.randn(48, dtype=torch.bfloat16)] if has_weight else [x]

    def plain(x: Tensor, weight: Tensor | None = None) -> Tensor:
        wide = x.float()
        normed = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
        return normed if weight is None else weight * normed

    def make(x: Tensor, weight: Tensor | None = None) -> Tensor:
        return fused.rms_norm(x, weight, 1e-6)

    exact = with_gradients(plain, [value.double() for value in inputs])
    pairs = zip(
        off(with_gradients(make, inputs), exact), off(with_gradients(plain, inputs), exact), strict=True
    )
    assert all(found <= max(4e-3, 1.5 * by_hand) for found, by_hand in pairs)


def test_the_rotation_of_bfloat16_is_that_of_float32_rounded_once() -> None:
    cos, sin = Rotary(16, 10_000.0, 1.0)(torch.arange(12))
    x = torch.randn(2, 12, 3, 16, dtype=torch.bfloat16).transpose(1, 2)
    assert torch.equal(rotate(x, cos, sin), fused.rotate(x.float(), cos, sin).bfloat16())


def test_only_float32_and_bfloat16_on_a_processor_are_fused() -> None:
    x = torch.randn(2, 8)
    assert fused.fuses(x, None)
    assert fused.fuses(x.bfloat16(), None)
    assert not fused.fuses(x.half(), None)
    assert not fused.fuses(x, torch.ones(8, dtype=torch.float64))
    assert not fused.fuses(torch.empty(2, 8, device="meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not fused.fuses(x, None)
