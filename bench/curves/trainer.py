"""A byte-level transformer of ~100,000 weights and a loop that can be broken in one named way at a time.

It is deliberately not Umsicht's own trainer: the bench must not share bugs with what it judges, and most of
the faults here (no causal mask, targets shifted by zero, updates that never arrive) cannot be written as a recipe.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.curves.corpora import Domain

Row = dict[str, Any]
VOCAB = 256


@dataclass(frozen=True)
class Plan:
    """One training run. Everything after ``seed`` is either an honest choice or a planted fault."""

    d_model: int = 64
    n_layers: int = 2
    n_heads: int = 4
    seq_len: int = 64
    rows: int = 16
    steps: int = 500
    lr: float = 3e-3
    warmup: int = 20
    schedule: str = "cosine"
    clip: float | None = 1.0
    dropout: float = 0.0
    weight_decay: float = 0.1
    optimizer: str = "adamw"
    log_every: int = 1
    eval_every: int = 50
    train_eval: bool = True
    seed: int = 0
    shares: tuple[float, ...] = (0.5, 0.5)
    order: str = "random"
    train_bytes: tuple[int | None, ...] = (None, None)
    lr_windows: tuple[tuple[int, int, float], ...] = ()
    restart: tuple[int, int] | None = None
    bad_batch: tuple[int, ...] = ()
    causal: bool = True
    shift: int = 1
    easy_text: bool = False
    other_script: bool = False
    shuffle_targets: bool = False
    frozen_from: int | None = None
    garbage_from: tuple[int, float] | None = None
    padding_from: tuple[int, float] | None = None
    shares_from: tuple[int, tuple[float, ...]] | None = None
    stop_at: int | None = None
    no_val: bool = False
    tags: tuple[str, ...] = field(default=())


class Block(nn.Module):
    def __init__(self, plan: Plan) -> None:
        super().__init__()
        d = plan.d_model
        self.plan = plan
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.down.weight)

    def forward(self, x: Tensor) -> Tensor:
        rows, seq, d = x.shape
        heads = self.plan.n_heads
        parts = self.qkv(self.norm1(x)).view(rows, seq, 3, heads, d // heads).transpose(1, 3)
        q, k, v = parts.unbind(2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.plan.causal)
        x = x + F.dropout(
            self.out(mixed.transpose(1, 2).reshape(rows, seq, d)), self.plan.dropout, self.training
        )
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), self.plan.dropout, self.training)


class Model(nn.Module):
    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.causal = plan.causal
        self.embed = nn.ModuleList(nn.Embedding(VOCAB, plan.d_model) for _ in range(3))
        self.position = nn.Embedding(plan.seq_len, plan.d_model)
        for table in self.embed:
            nn.init.normal_(table.weight, std=1.0)
        nn.init.normal_(self.position.weight, std=0.1)
        self.blocks = nn.ModuleList(Block(plan) for _ in range(plan.n_layers))
        self.norm = nn.LayerNorm(plan.d_model)
        self.head = nn.Linear(plan.d_model, VOCAB, bias=False)
        nn.init.zeros_(self.head.weight)

    def forward(self, ids: Tensor) -> Tensor:
        # The two bytes before are embedded as well: a tiny model then learns in hundreds of steps, not thousands.
        seq = ids.shape[1]
        x = self.position.weight[:seq] + 0.0
        for back, table in enumerate(self.embed):
            # Without a causal mask the padding is symmetric, as in a convolution copied from vision: each place sees the next byte.
            shift = back if self.causal else back - 1
            padded = F.pad(ids, (max(shift, 0), max(-shift, 0)))
            x = x + table(padded[:, max(-shift, 0) : max(-shift, 0) + seq])
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x))
        return logits


class Windows:
    """Where the rows of step ``s`` come from: a pure function of the seed and the step."""

    def __init__(self, plan: Plan, domains: dict[str, Domain]) -> None:
        self.plan = plan
        self.names = list(domains)
        self.train = [
            domain.train[:limit] for domain, limit in zip(domains.values(), plan.train_bytes, strict=True)
        ]
        if plan.other_script:
            # The second domain in bytes that the first never uses, as a text in another script: nothing carries over.
            self.train[1] = self.train[1] ^ 0x80
        if plan.easy_text:
            self.train = [np.resize(part[:24], part.shape) for part in self.train]
        length = plan.seq_len + 1
        self.windows = [
            (slice_, start)
            for slice_, part in enumerate(self.train)
            for start in range(0, len(part) - length, plan.seq_len)
        ]

    @property
    def steps_per_epoch(self) -> int:
        return max(1, len(self.windows) // self.plan.rows)

    def _places(self, step: int) -> list[tuple[int, int]]:
        plan = self.plan
        if plan.order in ("epochs", "sorted"):
            epoch, within = divmod(step, self.steps_per_epoch)
            ids = np.arange(len(self.windows))
            if plan.order == "epochs":
                np.random.default_rng([plan.seed, epoch]).shuffle(ids)
            return [self.windows[i] for i in ids[within * plan.rows : (within + 1) * plan.rows]]
        rng = np.random.default_rng([plan.seed, step])
        shares = np.array(plan.shares)
        if plan.shares_from and step >= plan.shares_from[0]:
            shares = np.array(plan.shares_from[1])
        picks = rng.choice(len(shares), size=plan.rows, p=shares / shares.sum())
        return [(int(p), int(rng.integers(len(self.train[p]) - plan.seq_len - 1))) for p in picks]

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        plan = self.plan
        rows = np.stack([self.train[p][s : s + plan.seq_len + 1] for p, s in self._places(step)]).astype(
            np.int64
        )
        rng = np.random.default_rng([plan.seed, step, 7])
        if step in plan.bad_batch:
            rows = rng.integers(0, VOCAB, rows.shape)
        if plan.garbage_from and step >= plan.garbage_from[0]:
            bad = rng.random(len(rows)) < plan.garbage_from[1]
            rows[bad] = rng.integers(0, VOCAB, rows[bad].shape)
        if plan.padding_from and step >= plan.padding_from[0]:
            rows[rng.random(len(rows)) < plan.padding_from[1]] = 32
        inputs = torch.from_numpy(rows[:, :-1].copy())
        targets = torch.from_numpy(rows[:, plan.shift : plan.shift + plan.seq_len].copy())
        if plan.shuffle_targets:
            targets = targets.flatten()[torch.from_numpy(rng.permutation(targets.numel()))].view_as(targets)
        return inputs, targets


def _fixed_rows(part: np.ndarray[Any, np.dtype[np.uint8]], seq_len: int, rows: int) -> np.ndarray[Any, Any]:
    starts = np.linspace(0, len(part) - seq_len - 2, rows).astype(int)
    return np.stack([part[s : s + seq_len + 1] for s in starts]).astype(np.int64)


@torch.no_grad()
def _score(model: Model, rows: np.ndarray[Any, Any], plan: Plan) -> float:
    model.eval()
    inputs = torch.from_numpy(rows[:, :-1].copy())
    targets = torch.from_numpy(rows[:, plan.shift : plan.shift + plan.seq_len].copy())
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).item()
    model.train()
    return loss


def _lr(plan: Plan, step: int) -> float:
    lr = plan.lr * min(1.0, (step + 1) / max(1, plan.warmup))
    progress = step / plan.steps
    if plan.schedule == "cosine":
        lr *= 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * progress))
    elif plan.schedule == "wsd" and progress > 0.75:
        lr *= max(0.02, (1 - progress) / 0.25)
    for start, stop, factor in plan.lr_windows:
        if start <= step < stop:
            lr *= factor
    return lr


def _round(row: Row) -> Row:
    def one(value: Any) -> Any:
        if not isinstance(value, float):
            return value
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return float(f"{value:.5g}")

    return {key: one(value) for key, value in row.items()}


def run(plan: Plan, domains: dict[str, Domain]) -> Iterator[Row]:
    """Train as planned and yield the rows of a ``metrics.jsonl``."""
    torch.manual_seed(plan.seed)
    windows = Windows(plan, domains)
    model = Model(plan)
    if plan.optimizer == "sgd":
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=plan.lr, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=plan.lr, betas=(0.9, 0.95), weight_decay=plan.weight_decay
        )
    val = {name: _fixed_rows(domain.val, plan.seq_len, 32) for name, domain in domains.items()}
    if plan.other_script:
        val = {name: rows ^ 0x80 if i else rows for i, (name, rows) in enumerate(val.items())}
    if plan.easy_text:
        val = {n: _fixed_rows(windows.train[i], plan.seq_len, 32) for i, n in enumerate(val)}
    fixed = [_fixed_rows(part, plan.seq_len, 32) for part in windows.train]
    began = time.perf_counter()
    step, segment, snapshot, restart = 0, 1, None, plan.restart
    last = plan.stop_at or plan.steps
    per_step = plan.rows * plan.seq_len

    def head() -> Row:
        return {
            "step": step,
            "tokens": step * per_step,
            "time": time.perf_counter() - began,
            "segment": segment,
        }

    def scores() -> Row:
        row = head()
        if not plan.no_val:
            losses = {name: _score(model, rows, plan) for name, rows in val.items()}
            losses["all"] = sum(losses.values()) / len(losses)
            for name, loss in losses.items():
                row |= {f"val/{name}/loss": loss, f"val/{name}/bpb": loss / math.log(2)}
        if plan.train_eval:
            shares = np.array(plan.shares) / sum(plan.shares)
            row["train_eval/loss"] = float(
                sum(s * _score(model, rows, plan) for s, rows in zip(shares, fixed, strict=True) if s > 0)
            )
        return row

    yield _round(scores())
    while step < last:
        if restart and step == restart[1] and snapshot is None:
            snapshot = (
                {k: v.clone() for k, v in model.state_dict().items()},
                _clone(optimizer.state_dict()),
            )
        lr = _lr(plan, step)
        for group in optimizer.param_groups:
            group["lr"] = lr
        inputs, targets = windows.batch(step)
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own annotation is missing here
        norm = nn.utils.clip_grad_norm_(model.parameters(), plan.clip or math.inf)
        if plan.frozen_from is None or step < plan.frozen_from:
            optimizer.step()
        step += 1
        row = head()
        if step % plan.log_every == 0 or step == last:
            row |= {"train/loss": loss.item(), "train/grad_norm": float(norm), "train/lr": lr}
            if plan.order != "random":
                row["train/epoch"] = step / windows.steps_per_epoch
        if step % plan.eval_every == 0 or step == last:
            row |= scores()
        if len(row) > 4:
            yield _round(row)
        if restart and step == restart[0] and snapshot is not None:
            model.load_state_dict(snapshot[0])
            optimizer.load_state_dict(snapshot[1])
            step, segment, restart = restart[1], segment + 1, None


def _clone(state: Any) -> Any:
    if isinstance(state, Tensor):
        return state.clone()
    if isinstance(state, dict):
        return {key: _clone(value) for key, value in state.items()}
    if isinstance(state, list):
        return [_clone(value) for value in state]
    return state
