"""What is rated: outputs of several systems to the same prompts, matched so that only the system differs."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from umsicht.findings import UserError
from umsicht.record.run import Run
from umsicht.words import t


@dataclass(frozen=True)
class Output:
    """One text that one system wrote to one prompt. `prompt_id` names prompt and way of drawing (seed, temperature)."""

    system: str
    prompt_id: str
    prompt: str
    text: str


def of_run(run: Run, step: int | None = None) -> tuple[str, list[Output]]:
    """The samples of a run at a step (the last one by default): (sampling protocol, outputs). Raises UserError where there is none."""
    rows = run.samples()
    steps = sorted({int(row["step"]) for row in rows})
    wanted = steps[-1] if step is None and steps else step
    chosen = [row for row in rows if int(row["step"]) == wanted]
    if not chosen:
        raise UserError(
            t("ratings.no_outputs", run=run.name, step=wanted if wanted is not None else "—"),
            where=str(run.samples_path),
            fix=t("ratings.no_outputs.fix", known=", ".join(map(str, steps)) or "—"),
        )
    system = f"{run.name}@{wanted}"
    latest = {_key(row): row for row in chosen}  # drawn twice: the later one counts
    outputs = [Output(system, key, str(row["prompt"]), str(row["text"])) for key, row in latest.items()]
    return str(chosen[-1].get("protocol", "")), outputs


def _key(row: Mapping[str, Any]) -> str:
    return f"{row['prompt_id']}·{row['temperature']}·{row['seed']}"


def of_file(path: Path) -> list[Output]:
    """JSONL rows `{"system", "prompt_id" (optional), "prompt", "text"}`. Raises UserError naming the first bad line."""
    outputs = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
            prompt = str(row["prompt"])
            outputs.append(
                Output(str(row["system"]), str(row.get("prompt_id", prompt)), prompt, str(row["text"]))
            )
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                t("ratings.bad_outputs", file=path),
                where=f"{path}:{number}: {error}",
                fix=t("ratings.bad_outputs.fix"),
            ) from None
    if not outputs:
        raise UserError(t("ratings.bad_outputs", file=path), fix=t("ratings.bad_outputs.fix"))
    return outputs


@dataclass(frozen=True)
class Matched:
    """Two outputs to the same prompt by different systems."""

    first: Output
    second: Output


def match(outputs: Sequence[Output]) -> list[Matched]:
    """Every pair of systems on every prompt that both answered, in a fixed order.

    Pairs with equal texts are left out: there is nothing to choose. Raises UserError where nothing can be matched.
    """
    by_prompt: dict[str, dict[str, Output]] = defaultdict(dict)
    for output in outputs:
        by_prompt[output.prompt_id][output.system] = output
    pairs = []
    for _, answers in sorted(by_prompt.items()):
        systems = sorted(answers)
        for i, first in enumerate(systems):
            for second in systems[i + 1 :]:
                if answers[first].text.strip() != answers[second].text.strip():
                    pairs.append(Matched(answers[first], answers[second]))
    if not pairs:
        raise UserError(t("ratings.nothing_to_compare"), fix=t("ratings.nothing_to_compare.fix"))
    return pairs


def spoil(text: str, seed: str) -> str:
    """A control: the same words in disorder, so that any attentive reader prefers the original.

    Short texts (under six words) are repeated words instead, because a shuffle may leave them readable.
    """
    words = re.findall(r"\S+", text)
    rng = random.Random(seed)
    if len(words) < 6:
        word = words[0] if words else "…"
        return " ".join([word] * 12)
    shuffled = words[:]
    while shuffled == words:
        rng.shuffle(shuffled)
    return " ".join(shuffled)
