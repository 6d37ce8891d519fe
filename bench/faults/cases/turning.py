"""A decoder with rotary positions in somebody else's loop, and faults of a blind trial in it: positions, residuals, modes, masks, terms of the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from bench.faults.case import case
from bench.faults.cases.foreign import LENGTH, VOCAB, WIDTH, Small, batch, loss, subject
from bench.faults.cases.loops import evaluate, looped

HEADS, SHARED = 4, 2
SIZE = WIDTH // HEADS
Loss = Callable[[Any, Any], torch.Tensor]


def tables(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine `[length, SIZE]`, laid out for halves."""
    speed = 10000.0 ** (-torch.arange(0, SIZE, 2) / SIZE)
    angle = torch.outer(torch.arange(length), speed).repeat(1, 2)
    return angle.cos(), angle.sin()


def halves(x: torch.Tensor) -> torch.Tensor:
    """(a, b) → (-b, a), a and b the two halves."""
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)


def pairs(x: torch.Tensor) -> torch.Tensor:
    """The same for neighbours: right with tables that are laid out for them, and only then."""
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


class Turning(nn.Module):
    """A decoder in the manner of Llama, written in the plainest way."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.blocks = nn.ModuleList(Turner(dropout) for _ in range(2))
        self.norm, self.lm_head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
        cosine, sine = tables(2 * LENGTH)
        self.register_buffer("cos", cosine)
        self.register_buffer("sin", sine)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.05)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        """Logits; rows are padded on the right, so that the causal mask alone keeps padding out."""
        x = self.embed(input_ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits: torch.Tensor = self.lm_head(self.norm(x))
        return logits


class Turner(nn.Module):
    """Grouped attention and a gated feed-forward network."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.before, self.after = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q, self.out = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.kv = nn.Linear(WIDTH, 2 * SHARED * SIZE, bias=False)
        self.feed: nn.Module = Gated()
        self.chance = dropout

    def turn(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        """Rotate `[rows, heads, seq, SIZE]`."""
        seq = x.shape[2]
        return x * cosine[:seq] + halves(x) * sine[:seq]

    def mix(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        """Attention with dropout that no module owns."""
        rows, seq, _ = x.shape
        query = self.q(x).view(rows, seq, HEADS, SIZE).transpose(1, 2)
        key, value = self.kv(x).view(rows, seq, 2, SHARED, SIZE).permute(2, 0, 3, 1, 4)
        query, key = self.turn(query, cosine, sine), self.turn(key, cosine, sine)
        key, value = (each.repeat_interleave(HEADS // SHARED, 1) for each in (key, value))
        mixed = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, dropout_p=self.chance if self.training else 0.0
        )
        return functional.dropout(self.out(mixed.transpose(1, 2).flatten(2)), self.chance, self.training)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        """One block."""
        x = x + self.mix(self.before(x), cosine, sine)
        grown: torch.Tensor = x + self.feed(self.after(x))
        return grown


class Gated(nn.Module):
    """SwiGLU."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(WIDTH, 64, bias=False), nn.Linear(WIDTH, 64, bias=False)
        self.down = nn.Linear(64, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Gate, grow, shrink."""
        made: torch.Tensor = self.down(functional.silu(self.gate(x)) * self.up(x))
        return made


class Routed(nn.Module):
    """Two of four experts a token, and the balance that a router is trained with besides."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 4, bias=False)
        self.experts = nn.ModuleList(Gated() for _ in range(4))
        self.balance = torch.zeros(())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The weighted sum of the chosen experts."""
        chance = self.router(x).softmax(-1)
        weight, chosen = chance.topk(2, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        used = functional.one_hot(chosen, 4).float().sum(-2).mean((0, 1))
        self.balance = 4 * (used * chance.mean((0, 1))).sum()
        parts = [e(x) * (weight * (chosen == n)).sum(-1, keepdim=True) for n, e in enumerate(self.experts)]
        return torch.stack(parts).sum(0)


def changed(change: Callable[[Any], None]) -> dict[str, Any]:
    """A loop around a model with something changed in it."""
    model = Turning()
    change(model)
    return looped(model=model)


def blocks(which: tuple[int, ...], name: str, new: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Put another function into some blocks."""

    def change(model: Any) -> None:
        for index in which:
            setattr(model.blocks[index], name, new(model.blocks[index]))

    return change


def _lose_tables(model: Any) -> None:
    model.cos.fill_(1.0)
    model.sin.zero_()


def _turn_neighbours(block: Any) -> Any:
    return lambda x, c, s: x * c[: x.shape[2]] + pairs(x) * s[: x.shape[2]]


def _turn_heads(block: Any) -> Any:
    real = block.turn
    return lambda x, c, s: real(x.transpose(1, 2), c, s).transpose(1, 2)


def _turn_queries(block: Any) -> Any:
    real = block.turn
    return lambda x, c, s: real(x, c, s) if x.shape[1] == HEADS else x


PLACE = ("NUMERIC", "model")
case(
    "X14",
    *PLACE,
    {"foreign": lambda: changed(_lose_tables)},
    {"foreign": lambda: changed(blocks((0, 1), "turn", _turn_heads))},
)
case(
    "X15",
    *PLACE,
    {"foreign": lambda: changed(blocks((0, 1), "turn", _turn_neighbours))},
    {"foreign": lambda: changed(blocks((1,), "turn", _turn_queries))},
)


def _forgets_input(block: Any) -> Any:
    def forward(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        x = block.mix(block.before(x), cosine, sine)
        grown: torch.Tensor = x + block.feed(block.after(x))
        return grown

    return forward


def _returns_branch(block: Any) -> Any:
    def forward(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        x = x + block.mix(block.before(x), cosine, sine)
        made: torch.Tensor = block.feed(block.after(x))
        return made

    return forward


case(
    "X16",
    *PLACE,
    {"foreign": lambda: changed(blocks((0, 1), "forward", _forgets_input))},
    {"foreign": lambda: changed(blocks((1,), "forward", _returns_branch))},
)


def _louder_in_evaluation(factor: float) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        real = model.lm_head.forward
        model.lm_head.forward = lambda x: real(x) * (1.0 if model.training else factor)

    return change


case(
    "X17",
    "EVAL-VALIDITY",
    "model",
    {"foreign": lambda: changed(_louder_in_evaluation(1.5))},
    {"foreign": lambda: changed(_louder_in_evaluation(1.01))},
)


def _reversed(least: int) -> dict[str, Any]:
    """A padding mask read the wrong way round, in rows with at least so much padding."""
    model = Small(positions_from_mask=False)
    real = model.forward

    def forward(input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        if attention_mask is not None:
            turned = (attention_mask == 0).sum(1, keepdim=True) >= least
            attention_mask = torch.where(turned, 1 - attention_mask, attention_mask)
        return real(input_ids, attention_mask)

    model.forward = forward  # type: ignore[method-assign]
    return subject(model=model, batches=[batch(number, "right") for number in range(10)])


case("X18", "CONTEXT", "model", {"foreign": lambda: _reversed(1)}, {"foreign": lambda: _reversed(9)})


def pulled(strength: float, everywhere: bool = True) -> Loss:
    """Cross-entropy with a z-loss, over padding too or not."""

    def planted(model: Any, one: Any) -> torch.Tensor:
        logits = model(one["input_ids"], one["attention_mask"])
        squares = logits[:, :-1].logsumexp(-1).square()
        active = one["labels"][:, 1:] >= 0
        return loss(logits, one["labels"]) + strength * (squares if everywhere else squares[active]).mean()

    return planted


def padded(**changes: Any) -> dict[str, Any]:
    """A check of rows padded on the right."""
    return subject(
        **{"model": Turning(), "batches": [batch(number, "right") for number in range(10)], **changes}
    )


case(
    "X19",
    "TARGET-MASK",
    "loss",
    {"foreign": lambda: padded(loss=pulled(1e-2))},
    {"foreign": lambda: padded(loss=pulled(1e-5))},
)


def recomputed(model: Any, kept: bool = True) -> None:
    """Blocks whose inside is computed again in the backward pass, with the dropout of the forward pass or with another."""
    for block in model.blocks:
        block.forward = lambda *given, real=block.forward: checkpoint(
            real, *given, use_reentrant=False, preserve_rng_state=kept
        )


def dropping(chance: float, kept: bool = True) -> dict[str, Any]:
    """A loop with dropout and recomputation."""
    model = Turning(chance)
    recomputed(model, kept)
    return looped(model=model)


case(
    "X20",
    "NUMERIC",
    "gradient",
    {"foreign": lambda: dropping(0.3, kept=False)},
    {"foreign": lambda: dropping(0.1, kept=False)},
)


def _rounded(dtype: torch.dtype) -> Loss:
    def planted(model: Any, one: Any) -> torch.Tensor:
        logits = model(one["input_ids"], one["attention_mask"])
        return loss(logits.to(dtype), one["labels"]).float()

    return planted


case(
    "X21",
    "NUMERIC",
    "loss",
    {"foreign": lambda: subject(model=Turning(), loss=_rounded(torch.bfloat16))},
    {"foreign": lambda: subject(model=Turning(), loss=_rounded(torch.float16))},
)


def routed(share: Callable[[int, int, int], float], strength: float = 0.01) -> dict[str, Any]:
    """Experts whose balance enters each micro-batch's loss with a share of (its targets, all targets, micro-batches)."""
    torch.manual_seed(6)
    model = Turning()
    for block in model.blocks:
        block.feed = Routed()
        for parameter in block.feed.parameters():
            nn.init.normal_(parameter, std=0.05)

    def terms(model: Any, one: Any) -> tuple[torch.Tensor, torch.Tensor]:
        main = loss(model(one["input_ids"], one["attention_mask"]), one["labels"])
        return main, strength * torch.stack([block.feed.balance for block in model.blocks]).sum()

    def step(model: Any, optimizer: Any, batches: Any) -> None:
        optimizer.zero_grad()
        counts = [int((one["labels"][:, 1:] >= 0).sum()) for one in batches]
        for one, count in zip(batches, counts, strict=True):
            main, balance = terms(model, one)
            (main * count / sum(counts) + balance * share(count, sum(counts), len(counts))).backward()
        optimizer.step()

    made = looped(model=model, loss=lambda model, one: sum(terms(model, one)), train_step=step)
    return {**made, "evaluate": evaluate}


case(
    "X22",
    "LOSS-NORM",
    "training step",
    {"foreign": lambda: routed(lambda own, total, parts: 1.0, strength=0.1)},
    {"foreign": lambda: routed(lambda own, total, parts: 1.0)},
)
