"""T13 around the loop: what looks at a run must not change it, what it reports must be what it says, and generating must read as training does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from umsicht.findings import Finding
from umsicht.guard.probes.rehearse import Recorder, Stage, fit, stage_of
from umsicht.guard.subject import Cannot, Subject, numbers
from umsicht.model import KVCache, Transformer
from umsicht.recipe.train import ValidationSettings
from umsicht.score import generate
from umsicht.train.hooks import Hook, View
from umsicht.train.validation import Validation

STAGE = "evaluation"
STEPS = 4
SAMPLE_BYTES = 600


class Reported(Hook):
    """Compares what the validation hook logs with a score of the same documents made here and now."""

    name = "guard-reported"

    def __init__(self, score: Any, split: Any) -> None:
        self.score, self.split = score, split
        self.gaps: list[tuple[int, float, float]] = []

    def after_step(self, view: View) -> None:
        """Only steps that carry scores."""
        reported = view.row.get("val/all/loss")
        if isinstance(reported, int | float):
            self.gaps.append(
                (view.step, float(reported), float(self.score(view.model, self.split, None).loss))
            )


def alongside(subject: Subject) -> Iterator[Finding]:
    """The same steps with and without validation and monitors, equal to the bit; reported scores; the cache against plain logits."""
    stage = stage_of(subject)
    data = subject.need("data", "token data")
    yield from _neutral(subject, stage, data)
    yield from _generation(subject)


def _neutral(subject: Subject, stage: Stage, data: Any) -> Iterator[Finding]:
    settings = stage.short(STEPS)
    plain = stage.trace("alone", settings=settings)
    has_val = data.val.n_documents > 0
    watched = ValidationSettings(every_steps=2, slice_bytes=SAMPLE_BYTES, train_bytes=0)
    recorder = Recorder()
    hooks: list[Hook] = [recorder]
    reported = None
    if has_val:
        reported = Reported(subject.extra["score"], data.val.sample(SAMPLE_BYTES))
        hooks += [Validation(data, watched, seq_len=int(subject.extra["seq_len"])), reported]
    if stage.monitors is not None:
        hooks += stage.monitors(settings, STEPS)
    fit(stage.trainer("accompanied", hooks=hooks, settings=settings))
    trace = recorder.trace
    for index, step in enumerate(plain.steps):
        if index >= len(trace.weights) or trace.weights[index] != plain.weights[index]:
            yield Finding(
                "EVAL-VALIDITY/disturbs-training",
                "stop",
                STAGE,
                location=f"evaluation: step {step}",
                numbers=numbers(step=step, steps=STEPS),
            )
            return
    for step, found, want in reported.gaps if reported is not None else ():
        if abs(found - want) > 1e-5 * max(1.0, abs(want)):
            yield Finding(
                "EVAL-VALIDITY/reported",
                "stop",
                STAGE,
                location=f"evaluation: step {step}",
                numbers=numbers(step=step, found=found, expected=want),
            )
            return


def _generation(subject: Subject) -> Iterator[Finding]:
    """Greedy text from the cache is greedy text from plain logits, from short prompts to the end of the context."""
    module = subject.need_module()
    if not isinstance(module, Transformer):
        raise Cannot("only Umsicht's own models generate from a cache here")
    limit = module.config.n_tokens
    row = subject.small.ids[:1, : min(24, subject.small.ids.shape[1])]
    with subject.awake(), subject.need_model().mode(training=False), torch.no_grad():
        plain = module(row)[0, :, :limit].float()
        cached = _from_cache(module, row)[:, :limit].float()
        behind = (plain - cached).abs().amax(dim=1) / plain.std().clamp_min(1e-9)
        rounding = 1e-3 if subject.need_model().dtype in (torch.float32, torch.float64) else 5e-2
        if float(behind.max()) > rounding:
            yield _differs(behind, int(row.shape[1]), 0)
            return
        for length in (1, min(int(row.shape[1]) - 8, 9)):
            prompt = row[0, : max(1, length)].tolist()
            made = list(generate(module, prompt, max_new_tokens=8, temperature=0.0))
            logits = module(torch.tensor([[*prompt, *made]]).to(row.device))[0, :, :limit]
            scores = logits[len(prompt) - 1 : -1].float()
            chosen = scores.gather(1, torch.tensor(made).to(scores.device)[:, None])[:, 0]
            # Near ties may fall either way; anything further from the best is another computation.
            behind = (scores.amax(dim=1) - chosen) / scores.std(dim=1).clamp_min(1e-9)
            if float(behind.max()) > 1e-2:
                yield _differs(behind, len(prompt), len(made))
                return


def _from_cache(module: Transformer, row: torch.Tensor) -> torch.Tensor:
    """Logits of a row read through a cache: five tokens at once, then one by one, `[seq, vocab]`."""
    weight = module.embed.weight
    cache = KVCache(module.config, 1, int(row.shape[1]), device=weight.device, dtype=weight.dtype)
    found, start = [], 0
    for stop in (5, *range(6, int(row.shape[1]) + 1)):
        found.append(module.logits(module.hidden(row[:, start:stop], cache=cache))[0])
        start = stop
    return torch.cat(found)


def _differs(behind: torch.Tensor, prompt: int, tokens: int) -> Finding:
    return Finding(
        "EVAL-VALIDITY/generation-differs",
        "stop",
        STAGE,
        location=f"model: position {int(behind.argmax())}",
        numbers=numbers(delta=float(behind.max()), prompt=prompt, tokens=tokens),
    )
