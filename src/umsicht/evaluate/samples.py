"""Fixed prompts x seeds x temperatures: what the model writes, stored with counts that need no understanding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import nn

from umsicht.evaluate import textstats
from umsicht.evaluate.promptset import Prompt, PromptSet
from umsicht.findings import Finding
from umsicht.recipe.evaluate import SampleSettings
from umsicht.record.ids import content_id, short
from umsicht.score import generate

SCHEMA = 1


class Codec(Protocol):
    """What is asked of a tokenizer."""

    @property
    def eos_id(self) -> int: ...
    @property
    def digest(self) -> str: ...
    def encode(self, text: str) -> list[int]: ...
    def decode(self, ids: Sequence[int]) -> str: ...


@dataclass(frozen=True)
class Sampling:
    """One way of drawing; with the prompts it makes the sampling protocol."""

    seed: int
    temperature: float
    top_p: float
    max_new_tokens: int


def grid(settings: SampleSettings) -> list[Sampling]:
    """All of them; a greedy output does not depend on the seed and is drawn once."""
    return [
        Sampling(seed, temperature, settings.top_p, settings.max_new_tokens)
        for temperature in settings.temperatures
        for seed in (settings.seeds[:1] if temperature == 0 else settings.seeds)
    ]


def protocol_digest(prompts: PromptSet, settings: SampleSettings) -> str:
    """Names prompts and ways of drawing; outputs of unequal digests are not one series."""
    return content_id([prompts.digest, [vars(s) for s in grid(settings)]])


def draw(
    model: nn.Module,
    tokenizer: Codec,
    prompts: PromptSet,
    settings: SampleSettings,
    *,
    step: int,
    tokens: int,
) -> Iterator[dict[str, Any]]:
    """One row for `samples.jsonl` per prompt and way of drawing. The model is put into eval mode and back.

    The prompt stands behind an end-of-text token, as the beginning of a document does in training.
    """
    protocol = protocol_digest(prompts, settings)
    was_training = model.training
    model.eval()
    try:
        for prompt in prompts.prompts:
            for sampling in grid(settings):
                row = _one(model, tokenizer, prompt, sampling)
                yield {
                    "schema": SCHEMA,
                    "step": step,
                    "tokens": tokens,
                    "prompt_set": short(prompts.digest),
                    "protocol": short(protocol),
                    "id": short(content_id([step, protocol, prompt.id, vars(sampling), row["text"]])),
                    **row,
                }
    finally:
        model.train(was_training)


def _one(model: nn.Module, tokenizer: Codec, prompt: Prompt, sampling: Sampling) -> dict[str, Any]:
    ids = [tokenizer.eos_id, *tokenizer.encode(prompt.text)]
    written: list[int] = []
    ended = False
    for token in generate(
        model,
        ids,
        max_new_tokens=sampling.max_new_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=_seed_of(prompt, sampling),
        stop_ids=(tokenizer.eos_id,),
    ):
        if token == tokenizer.eos_id:
            ended = True
            break
        written.append(token)
    return {
        "prompt_id": prompt.id,
        "language": prompt.language,
        "domain": prompt.domain,
        "prompt": prompt.text,
        **vars(sampling),
        "text": tokenizer.decode(written),
        "ended": ended,
        **textstats.measure(written).to_dict(),
    }


def _seed_of(prompt: Prompt, sampling: Sampling) -> int:
    """Each prompt has dice of its own: with the same throws everywhere a weak model would write the same text everywhere."""
    return int(content_id([sampling.seed, prompt.id])[:8], 16)


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Means over a set of outputs, for `metrics.jsonl` and the evaluation record."""
    if not rows:
        return {}
    names = ("repetition", "distinct_1", "distinct_2", "distinct_3")
    result: dict[str, float] = {
        f"samples/{name}": sum(float(r[name]) for r in rows) / len(rows) for name in names
    }
    result["samples/looping"] = sum(r["loop_tokens"] > 0 for r in rows) / len(rows)
    result["samples/ended"] = sum(bool(r["ended"]) for r in rows) / len(rows)
    result["samples/outputs"] = len(rows)
    return result


LOOPING_SHARE = 0.3


def looping(rows: Sequence[dict[str, Any]], step: int) -> list[Finding]:
    """A finding where many outputs drawn with chance still end in a loop."""
    drawn = [row for row in rows if row["temperature"] > 0]
    if len(drawn) < 4:
        return []
    share = sum(row["loop_tokens"] > 0 for row in drawn) / len(drawn)
    if share < LOOPING_SHARE:
        return []
    worst = max(drawn, key=lambda row: int(row["loop_tokens"]))
    numbers = {"step": step, "share": share, "outputs": len(drawn)}
    return [
        Finding(
            "SAMPLE/looping",
            "warn",
            "evaluate",
            str(worst["prompt_id"]),
            numbers,
            (str(worst["text"])[-160:],),
        )
    ]


def changed_protocol(before: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> list[Finding]:
    """A finding where the new outputs were not drawn as the last recorded ones: other prompts, seeds or temperatures."""
    if not before or not rows or before[-1]["protocol"] == rows[0]["protocol"]:
        return []
    numbers = {"step": rows[0]["step"], "before": before[-1]["protocol"], "after": rows[0]["protocol"]}
    return [Finding("SAMPLE/prompts-changed", "warn", "evaluate", "", numbers)]
