"""The chunked loss against the plain one, in value and in gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from umsicht.score import IGNORE, cross_entropy_sum, loss_sum, token_nats


def plain_twin(hidden, weight, targets, softcap, smoothing, z_loss):
    """The same objective, written the obvious way with all logits at once."""
    logits = (hidden.flatten(0, -2) @ weight.t()).float()
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    flat = targets.flatten()
    active = flat != IGNORE
    loss = F.cross_entropy(logits, flat, reduction="sum", ignore_index=IGNORE, label_smoothing=smoothing)
    return loss + z_loss * (logits.logsumexp(-1).square() * active).sum()


def example(rows, vocab, width, active_share, seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(2, rows, width, generator=generator).to(dtype).requires_grad_()
    weight = torch.randn(vocab, width, generator=generator).to(dtype).requires_grad_()
    targets = torch.randint(0, vocab, (2, rows), generator=generator)
    targets[torch.rand(2, rows, generator=generator) > active_share] = IGNORE
    return hidden, weight, targets


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 40),
    vocab=st.integers(2, 60),
    active=st.sampled_from([0.0, 0.3, 1.0]),
    softcap=st.sampled_from([None, 1.5, 15.0]),
    smoothing=st.sampled_from([0.0, 0.1]),
    z_loss=st.sampled_from([0.0, 1e-2]),
    chunk=st.integers(1, 50),
    seed=st.integers(0, 10_000),
)
def test_value_and_gradient_equal_the_plain_loss(
    rows, vocab, active, softcap, smoothing, z_loss, chunk, seed
):
    hidden, weight, targets = example(rows, vocab, 8, active, seed, torch.float32)
    options = {"softcap": softcap, "label_smoothing": smoothing, "z_loss": z_loss}
    value, count = cross_entropy_sum(hidden, weight, targets, chunk_rows=chunk, **options)
    expected = plain_twin(hidden, weight, targets, softcap, smoothing, z_loss)
    assert count == int((targets != IGNORE).sum())
    torch.testing.assert_close(value, expected, atol=2e-4, rtol=2e-5)
    got = torch.autograd.grad(value * 0.37, [hidden, weight])
    want = torch.autograd.grad(expected * 0.37, [hidden, weight])
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=2e-5)


def test_nats_leave_smoothing_and_z_loss_out():
    hidden, weight, targets = example(30, 50, 8, 0.7, 0, torch.float32)
    loss = loss_sum(hidden, weight, targets, label_smoothing=0.2, z_loss=0.1)
    torch.testing.assert_close(loss.nats, plain_twin(hidden, weight, targets, None, 0.0, 0.0).detach())
    assert not loss.nats.requires_grad and loss.objective.requires_grad
    torch.testing.assert_close(token_nats(hidden, weight, targets).sum(), loss.nats)


def test_no_active_target_is_zero_with_zero_gradient():
    hidden, weight, targets = example(5, 9, 4, 0.0, 0, torch.float32)
    value, count = cross_entropy_sum(hidden, weight, targets)
    value.backward()
    assert (float(value.detach()), count) == (0.0, 0)
    assert torch.equal(hidden.grad, torch.zeros_like(hidden)) and torch.equal(
        weight.grad, torch.zeros_like(weight)
    )


def test_a_second_backward_gives_the_same_gradient():
    hidden, weight, targets = example(9, 11, 4, 1.0, 0, torch.float32)
    value, _ = cross_entropy_sum(hidden, weight, targets)
    first = torch.autograd.grad(value, [hidden, weight], retain_graph=True)
    again = torch.autograd.grad(value, [hidden, weight])
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_frozen_head_or_frozen_trunk_get_no_gradient():
    hidden, weight, targets = example(9, 11, 4, 1.0, 0, torch.float32)
    value, _ = cross_entropy_sum(hidden, weight.detach(), targets)
    value.backward()
    assert hidden.grad is not None and weight.grad is None


@pytest.mark.parametrize("autocast", [False, True])
def test_bfloat16_stays_within_its_rounding(autocast):
    hidden, weight, targets = example(60, 200, 32, 0.8, 1, torch.float32)
    with torch.no_grad():
        weight.mul_(0.2)
    exact = plain_twin(hidden, weight, targets, 15.0, 0.0, 0.0)
    want = torch.autograd.grad(exact, [hidden, weight])
    dtype = torch.float32 if autocast else torch.bfloat16
    low = [x.detach().to(dtype).requires_grad_() for x in (hidden, weight)]
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        value, _ = cross_entropy_sum(*low, targets, softcap=15.0, chunk_rows=16)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, exact, rtol=2e-3, atol=0.0)
    for got, expected in zip(torch.autograd.grad(value, low), want, strict=True):
        assert got.dtype == dtype
        assert (got.float() - expected).norm() < 0.02 * expected.norm()


class LargestTensor(TorchDispatchMode):
    """Remembers the largest tensor any operation returned."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for item in out if isinstance(out, tuple | list) else (out,):
            if isinstance(item, torch.Tensor):
                self.numel = max(self.numel, item.numel())
        return out


def test_no_full_logits_tensor_is_ever_made():
    hidden, weight, targets = example(256, 1000, 8, 1.0, 0, torch.float32)
    with LargestTensor() as seen:
        value, _ = cross_entropy_sum(hidden, weight, targets, chunk_rows=32)
        value.backward()
    assert seen.numel <= 32 * 1000
