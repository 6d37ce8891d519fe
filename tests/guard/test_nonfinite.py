"""Each cause of a value that is not finite, planted, is named; the weights have not moved and the batch is kept."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.guard.models import VOCAB, Nano, cross_entropy, grouped, pairs

from umsicht.guard import GuardStop, watch

Batch = tuple[torch.Tensor, torch.Tensor]
Loss = Callable[[Nano, Batch], torch.Tensor]


def plain(model: Nano, batch: Batch) -> torch.Tensor:
    loss: torch.Tensor = model(*batch)[1]
    return loss


def invalid_id(model: Nano, batch: Batch) -> tuple[Loss, Batch]:
    ids = batch[0].clone()
    ids[0, 3] = VOCAB
    return plain, (ids, batch[1])


def masked_row(model: Nano, batch: Batch) -> tuple[Loss, Batch]:
    block: Any = model.h[1]

    def blind(x: torch.Tensor) -> torch.Tensor:
        rows, seq, width = x.shape
        q, k, v = block.qkv(block.ln_1(x)).view(rows, seq, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        allowed = torch.ones(seq, seq, dtype=torch.bool).tril()
        allowed[4] = False
        scores = (q @ k.transpose(-1, -2)).masked_fill(~allowed, -torch.inf)
        mixed = torch.softmax(scores, dim=-1) @ v
        out: torch.Tensor = x + block.proj(mixed.transpose(1, 2).reshape(rows, seq, width))
        return out

    block.forward = blind
    return plain, batch


def no_target(model: Nano, batch: Batch) -> tuple[Loss, Batch]:
    return plain, (batch[0], torch.full_like(batch[1], -100))


def overflow(model: Nano, batch: Batch) -> tuple[Loss, Batch]:
    def loss(model: Nano, batch: Batch) -> torch.Tensor:
        logits = model(*batch)[0]
        return cross_entropy(logits, batch[1]) + 0 * (logits.sum() * 0 + 200).exp()

    return loss, batch


def division(model: Nano, batch: Batch) -> tuple[Loss, Batch]:
    def loss(model: Nano, batch: Batch) -> torch.Tensor:
        logits = model(*batch)[0]
        spread = (logits * 0).std(dim=-1)
        return cross_entropy(logits / spread[..., None], batch[1])

    return loss, batch


def large_rate(model: Nano, batch: Batch) -> tuple[Loss, Batch]:
    with torch.no_grad():
        model.lm_head.weight[7, 3] = math.inf
    return plain, batch


CAUSES = {
    "invalid-id": invalid_id,
    "attention-row-masked": masked_row,
    "no-active-target": no_target,
    "exp-log-overflow": overflow,
    "division-by-zero": division,
    "rate-too-large": large_rate,
}


@pytest.mark.parametrize("cause", CAUSES)
def test_planted_cause_is_named(cause: str, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    model = Nano()
    loss, batch = CAUSES[cause](model, pairs()[0])
    optimizer = grouped(model)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with pytest.raises(GuardStop) as caught, watch(tmp_path, model, optimizer, loss=loss) as w:
        w.feed(batch)
        with w.computing():
            value = loss(model, batch)
            value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        w.step(value, batch)
    assert caught.value.finding.id == f"NUMERIC/{cause}", caught.value.finding
    assert caught.value.finding.numbers["replays"] == "equal"
    for name, parameter in model.named_parameters():
        assert torch.equal(before[name], parameter.detach()) or cause == "rate-too-large", name
    kept = json.loads(next((tmp_path / "alarms").iterdir()).read_text())
    assert kept["ids"] == batch[0].tolist()


def test_what_a_replay_does_not_show_again_is_called_hardware(tmp_path: Path) -> None:
    model, batch = Nano(), pairs()[0]
    calls = {"n": 0}

    def loss(model: Nano, batch: Batch) -> torch.Tensor:
        calls["n"] += 1
        return plain(model, batch) * (math.nan if calls["n"] in (1, 2) else 1.0)

    optimizer = grouped(model)
    with pytest.raises(GuardStop) as caught, watch(tmp_path, model, optimizer, loss=loss) as w:
        value = loss(model, batch)
        value.backward()  # type: ignore[no-untyped-call]
        w.feed(batch)
        optimizer.step()
    assert (caught.value.finding.id, caught.value.finding.numbers["replays"]) == (
        "NUMERIC/hardware",
        "different",
    )
