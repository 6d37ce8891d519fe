"""Group-relative policy optimisation (Shao et al. 2024, "DeepSeekMath", §4.1).

Several answers are drawn to each problem from the model as it is; each answer's advantage is its reward against the mean
of its group, in standard deviations. One update a draw, so the policy ratio is 1 and clipping never acts. What is trained is
the expected reward of a *drawn* answer; held-out problems are therefore answered by drawing too, and once more by the
likeliest tokens. What gives the rewards is a judge: a program that checks the text, or a reward model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from umsicht.model import Transformer
from umsicht.score import generate_batch
from umsicht.tokenizer import Tokenizer
from umsicht.tokenizer.chat import prompt_ids, stop_ids
from umsicht.tokens.batch import IGNORE, Batch, split_rows
from umsicht.tokens.permutation import Permutation, derive_key
from umsicht.train.objective import LossSums
from umsicht.words import t

from .loading import Refused
from .reference import Reference, drawn_logps_of
from .reward import Judge
from .rows import Problem

EPSILON = 1e-4
"""Keeps a group of equal rewards at advantage 0."""
ANSWER_TOKENS = 16_384
"""Positions of prompts and answers computed at a time: few draws of many answers are faster than many draws of few."""
HELD_OUT_ROWS = 128
"""Held-out answers written at a time."""
HELD_OUT_DRAWS = 4
"""Answers drawn to each held-out problem, with the same seeds every time."""


@dataclass(frozen=True)
class Posed:
    """A problem with its prompt in ids."""

    id: str
    prompt: tuple[int, ...]
    answer: str


def posed(
    rows: Sequence[Problem], tokenizer: Tokenizer, room: int, *, is_checked: bool = True
) -> tuple[list[Posed], list[Refused]]:
    """Problems whose prompt has at most `room` tokens; where answers are checked, those that have one."""
    out, refused = [], []
    for row in rows:
        ids = prompt_ids(row.prompt, tokenizer)
        if is_checked and not row.answer:
            refused.append(Refused(row.id, t("finetune.row.missing_key", detail="answer")))
        elif len(ids) > room:
            refused.append(Refused(row.id, t("finetune.row.too_long", detail=str(len(ids)))))
        else:
            out.append(Posed(row.id, tuple(ids), row.answer))
    return out, refused


class ProblemSource:
    """Problems as a batch source. `inputs` hold prompts padded on the left, there are no targets yet; `rows` number the
    problems drawn since step 0, which seeds the answers."""

    def __init__(
        self, problems: Sequence[Posed], *, batch_rows: int, seed: int, pad_id: int, group: int, room: int
    ) -> None:
        self.problems = list(problems)
        self.batch_rows = batch_rows
        self.seed = seed
        self.pad_id = pad_id
        self.group = group
        self.room = room
        self.width = max(len(p.prompt) for p in problems)

    @property
    def tokens_per_batch(self) -> int:
        """Positions computed a step, at most."""
        return self.batch_rows * self.group * (self.width + self.room)

    def problem(self, row: int) -> Posed:
        """The problem of the draw numbered `row`."""
        epoch, place = divmod(row, len(self.problems))
        order = Permutation(len(self.problems), derive_key(self.seed, epoch))
        return self.problems[int(order(place)[0])]

    def batch(self, step: int) -> Batch:
        """All problems of `step`."""
        numbers = list(range(step * self.batch_rows, (step + 1) * self.batch_rows))
        inputs = torch.full((len(numbers), self.width), self.pad_id)
        documents = torch.full(inputs.shape, -1, dtype=torch.int32)
        for row, number in enumerate(numbers):
            prompt = self.problem(number).prompt
            inputs[row, self.width - len(prompt) :] = torch.tensor(prompt)
            documents[row, self.width - len(prompt) :] = 0
        return Batch(inputs, torch.full_like(inputs, IGNORE), documents, torch.tensor(numbers))

    def micro_batches(self, step: int, rows: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """This rank's problems of `step`, at most `rows` at a time and so many that their answers fill about `ANSWER_TOKENS`."""
        whole = self.batch(step)
        first, last = split_rows(self.batch_rows, rank, world)
        some = self.problems_at_once(rows)
        for start in range(first, last, some):
            yield whole.slice(start, min(start + some, last))

    def problems_at_once(self, rows: int) -> int:
        """At most `rows`, and so many that their answers fill about `ANSWER_TOKENS`."""
        return max(1, min(rows, ANSWER_TOKENS // (self.group * (self.width + self.room))))

    def epoch(self, step: int) -> float:
        """Passes over the problems before `step`."""
        return step * self.batch_rows / len(self.problems)

    def state(self) -> dict[str, Any]:
        """What the order depends on."""
        return {
            "kind": "problems",
            "problems": len(self.problems),
            "batch_rows": self.batch_rows,
            "group": self.group,
            "seed": self.seed,
        }


@dataclass(frozen=True)
class GrpoSettings:
    """How answers are drawn and weighed."""

    kl: float
    max_new_tokens: int
    temperature: float
    seed: int


class GrpoObjective:
    """Sum over answers of the mean over each answer's tokens of −advantage · ratio + kl · (e^d − d − 1), with
    d = log π_ref − log π (Schulman's k3 estimate of the divergence)."""

    def __init__(
        self,
        source: ProblemSource,
        reference: Reference,
        judge: Judge,
        tokenizer: Tokenizer,
        settings: GrpoSettings,
    ) -> None:
        self.source = source
        self.reference = reference
        self.judge = judge
        self.tokenizer = tokenizer
        self.settings = settings
        self._seen: list[tuple[Tensor, Tensor, Tensor]] = []

    def units(self, batch: Batch) -> int:
        """What the loss is averaged over: answers."""
        return batch.inputs.shape[0] * self.source.group

    def __call__(self, model: Transformer, batch: Batch) -> LossSums:
        """Draw, reward and compare the answers to the problems of `batch`; sums over answers, float32."""
        problems = [self.source.problem(int(row)) for row in batch.rows for _ in range(self.source.group)]
        prompts = [list(problem.prompt) for problem in problems]
        answers = self._answers(model, prompts, int(batch.rows[0]), self.settings.temperature)
        rewards = torch.tensor(self.judge(prompts, answers, [problem.answer for problem in problems]))
        advantages = group_advantages(rewards, self.source.group).to(batch.inputs.device)
        rows = joined(prompts, answers, self.source.pad_id).to(batch.inputs.device)
        temperature = self.settings.temperature
        policy = drawn_logps_of(model, rows, temperature)
        distance = self.reference.drawn_logps(rows, temperature) - policy
        divergence = torch.exp(distance) - distance - 1
        ratio = torch.exp(policy - policy.detach())
        active = rows.targets != IGNORE
        each = -advantages[:, None] * ratio + self.settings.kl * divergence
        lengths = active.sum(1).clamp(min=1)
        loss = ((each * active).sum(1) / lengths).sum()
        spread = ((divergence.detach() * active).sum(1) / lengths).cpu()
        self._seen.append((rewards, spread, lengths.float().cpu()))
        return LossSums(loss, loss.detach())

    def _answers(
        self, model: Transformer, prompts: list[list[int]], first_row: int, temperature: float
    ) -> list[list[int]]:
        return generate_batch(
            model,
            prompts,
            max_new_tokens=self.settings.max_new_tokens,
            temperature=temperature,
            stop_ids=stop_ids(self.tokenizer),
            pad_id=self.source.pad_id,
            seed=derive_key(self.settings.seed, first_row) % 2**31,
        )

    def figures(self) -> dict[str, float]:
        """Means over the answers since the last call; `flat_groups`: the share whose rewards are all equal and teach nothing."""
        if not self._seen:
            return {}
        rewards, spread, lengths = (torch.cat(parts) for parts in zip(*self._seen, strict=True))
        self._seen.clear()
        grouped = rewards.view(-1, self.source.group)
        return {
            "grpo/reward": float(rewards.mean()),
            "grpo/kl": float(spread.mean()),
            "grpo/answer_tokens": float(lengths.mean()),
            "grpo/flat_groups": float((grouped == grouped[:, :1]).all(1).float().mean()),
        }

    def held_out(self, model: Transformer, problems: Sequence[Posed]) -> dict[str, float]:
        """Mean reward of answers to `problems`: `reward` of drawn ones, `likeliest_reward` of the likeliest."""
        drawn = [problem for problem in problems for _ in range(HELD_OUT_DRAWS)]
        return {
            "reward": self._mean_reward(model, drawn, self.settings.temperature),
            "likeliest_reward": self._mean_reward(model, problems, 0.0),
        }

    def _mean_reward(self, model: Transformer, problems: Sequence[Posed], temperature: float) -> float:
        total = 0.0
        for start in range(0, len(problems), HELD_OUT_ROWS):
            some = problems[start : start + HELD_OUT_ROWS]
            prompts = [list(p.prompt) for p in some]
            answers = self._answers(model, prompts, start, temperature)
            total += sum(self.judge(prompts, answers, [p.answer for p in some]))
        return total / len(problems)


def group_advantages(rewards: Tensor, group: int) -> Tensor:
    """(reward − mean) ÷ (standard deviation + 1e-4) within each group of `group` neighbours."""
    grouped = rewards.view(-1, group)
    centred = grouped - grouped.mean(1, keepdim=True)
    return (centred / (grouped.std(1, keepdim=True) + EPSILON)).flatten()


def asked(problems: Sequence[Posed], pad_id: int) -> Batch:
    """The prompts themselves as targets: what policy and reference must agree on before the first draw."""
    return joined([p.prompt[:1] for p in problems], [p.prompt[1:] for p in problems], pad_id)


def joined(prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], pad_id: int) -> Batch:
    """Prompt and answer in one row each, padded on the right; the answer's tokens are the targets."""
    width = max(len(p) + len(a) for p, a in zip(prompts, answers, strict=True)) - 1
    inputs = torch.full((len(prompts), width), pad_id)
    targets = torch.full_like(inputs, IGNORE)
    documents = torch.full(inputs.shape, -1, dtype=torch.int32)
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        ids = torch.tensor([*prompt, *answer])
        inputs[row, : len(ids) - 1] = ids[:-1]
        targets[row, len(prompt) - 1 : len(ids) - 1] = ids[len(prompt) :]
        documents[row, : len(ids) - 1] = 0
    return Batch(inputs, targets, documents, torch.arange(len(prompts)))
