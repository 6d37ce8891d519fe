"""Scripted models with a known memory: the verdict names it. Outputs with known copies: the share is exact."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from umsicht.evaluate import context, copied
from umsicht.score import IGNORE, TokenNats
from umsicht.tokenizer import Tokenizer


def remembers(reach: int, vocabulary: int = 1_000) -> TokenNats:
    """A model that predicts a token it saw within the last `reach` tokens, and guesses otherwise."""

    def nats_of(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        t = torch.arange(targets.shape[1])
        band = (t[None, :] <= t[:, None]) & (t[None, :] > t[:, None] - reach)  # [target, input]
        seen = ((inputs[:, None, :] == targets[:, :, None]) & band).any(2)
        nats = torch.where(seen, 1.0, float(np.log(vocabulary)))
        return torch.where(targets == IGNORE, 0.0, nats)

    return nats_of


def periodic(period: int, n: int = 1_200, documents: int = 12) -> list[np.ndarray]:
    """Text in which each token comes back after about `period` tokens."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(documents):
        ids = list(rng.integers(0, 10**6, period))
        while len(ids) < n:
            ids.append(ids[-period] if rng.random() < 0.8 else int(rng.integers(0, 10**6)))
        found.append(np.array(ids))
    return found


@pytest.mark.parametrize(
    ("reach", "period", "used"),
    [(24, 20, 32), (120, 100, 128), (120, 200, 16), (10_000, 200, 256), (10_000, 400, 512)],
)
def test_the_verdict_is_the_known_memory(tokenizer: Tokenizer, reach: int, period: int, used: int) -> None:
    report = context.measure(
        remembers(reach), tokenizer, periodic(period), claimed=256, trials=2, segments=24
    )
    assert report is not None
    assert report.used == used
    assert [g.context for g in report.gains] == [16, 32, 64, 128, 256, 512]
    assert ("CONTEXT/unused" in {f.id for f in report.findings}) == (report.used * 2 <= 256)


def test_a_model_that_looks_things_up_recalls_and_a_forgetful_one_does_not(tokenizer: Tokenizer) -> None:
    documents = [np.asarray(tokenizer.encode("Plain filler text, nothing of note. " * 200)) for _ in range(3)]

    def lookup(reach: int) -> TokenNats:
        def nats_of(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            nats = torch.full(targets.shape, 5.0)
            for row in range(targets.shape[0]):
                ids = inputs[row].tolist()
                for t in range(4, targets.shape[1]):
                    here = ids[t - 3 : t + 1]
                    for s in range(max(3, t - reach), t):
                        if ids[s - 3 : s + 1] == here and ids[s + 1] == int(targets[row, t]):
                            nats[row, t] = 0.1
            return torch.where(targets == IGNORE, 0.0, nats)

        return nats_of

    strong = context.needle(lookup(10_000), tokenizer, documents, 160, 6, 0)
    weak = context.needle(lookup(10), tokenizer, documents, 160, 6, 0)
    assert strong is not None
    assert weak is not None
    assert strong.right == 6
    assert weak.right <= 4
    listed = context.key_value(lookup(10_000), tokenizer, 160, 6, 0)
    assert listed is not None
    assert listed.right >= 5
    assert context.needle(lookup(10), tokenizer, documents, 40, 2, 0) is None


def test_short_documents_give_no_verdict(tokenizer: Tokenizer) -> None:
    assert context.measure(remembers(9), tokenizer, [np.arange(20)], claimed=64) is None


def test_copied_share_is_exact() -> None:
    rng = np.random.default_rng(0)
    training = [rng.integers(0, 500, n) for n in (300, 5, 0, 4_000)]
    fresh = rng.integers(500, 900, 60)
    half = np.concatenate([fresh[:30], training[3][100:130]])
    split = np.concatenate([training[0][-6:], training[3][:6]])  # across a border: nobody's text
    result = copied.measure([fresh, half, training[0][:40], split, []], training)
    assert [c.share for c in result] == [0.0, 0.5, 1.0, 0.0, 0.0]
    assert [c.longest for c in result] == [0, 30, 40, 0, 0]
    assert copied.measure([], training) == []


def test_outputs_that_are_mostly_copied_are_a_finding() -> None:
    good, bad = copied.Copied(0.1, 14), copied.Copied(0.9, 50)
    (finding,) = copied.judge([bad, bad, good, good], list("abcd"), 7)
    assert finding.id == "SAMPLE/copied"
    assert finding.numbers["copied"] == 2
    assert copied.judge([bad, good, good, good], list("abcd"), 7) == []
