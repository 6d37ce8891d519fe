"""Faults of the catalogue that need somebody else's loader, tokenizer, model or optimizer: planted there, found by `guard.check`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from bench.faults.case import case
from umsicht.guard import Declared

VOCAB, WIDTH, LENGTH = 120, 32, 24
BOS, EOS, PAD = 1, 2, 0


class Words:
    """A word-level tokenizer that knows what it was given; everything else is unknown."""

    bos_token_id, eos_token_id, pad_token_id, unk_token_id = BOS, EOS, PAD, 3

    def __init__(self, words: list[str]) -> None:
        self.words = ["<pad>", "<bos>", "<eos>", "<unk>", *words]
        self.ids = {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return VOCAB

    def encode(self, text: str) -> list[int]:
        """Ids of words between single spaces."""
        return [self.ids.get(word, 3) for word in text.split(" ")] if text else []

    def decode(self, ids: list[int]) -> str:
        """Words and spaces."""
        return " ".join(self.words[number] for number in ids)


class Small(nn.Module):
    """A decoder with absolute positions, written in the plainest way."""

    def __init__(self, positions_from_mask: bool = True) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed, self.place = nn.Embedding(VOCAB, WIDTH), nn.Embedding(2 * LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Layer() for _ in range(2))
        self.norm, self.lm_head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
        self.positions_from_mask = positions_from_mask
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.05)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        """Logits."""
        seq = input_ids.shape[1]
        real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        where = (real.cumsum(1) - 1).clamp_min(0) if self.positions_from_mask else torch.arange(seq)
        causal = torch.ones(seq, seq, dtype=torch.bool).tril()
        allowed = causal & real[:, None, None, :].bool()
        allowed = allowed | torch.eye(seq, dtype=torch.bool)
        x = self.embed(input_ids) + self.place(where)
        for block in self.blocks:
            x = block(x, allowed)
        logits: torch.Tensor = self.lm_head(self.norm(x))
        return logits


class Layer(nn.Module):
    """Attention and a feed-forward network."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)
        self.blind = False

    def forward(self, x: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        """One block; a blind one hides everything from its fifth position."""
        rows, seq, _ = x.shape
        q, k, v = self.qkv(self.before(x)).view(rows, seq, 3, 2, WIDTH // 2).permute(2, 0, 3, 1, 4)
        if self.blind:
            allowed = allowed.clone()
            allowed[..., 5, :] = False
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, seq, WIDTH))
        grown: torch.Tensor = x + self.down(functional.gelu(self.up(self.after(x))))
        return grown


def rows(count: int, seed: int) -> torch.Tensor:
    """Walks over a sparse table, `[count, LENGTH]`: something that can be learned."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.randint(4, VOCAB, (VOCAB, 3), generator=torch.Generator().manual_seed(0))
    state = torch.randint(4, VOCAB, (count,), generator=generator)
    columns = [state]
    for _ in range(LENGTH - 1):
        state = table[state, torch.randint(0, 3, (count,), generator=generator)]
        columns.append(state)
    return torch.stack(columns, 1)


def batch(number: int, pad: str = "", begin: int = 1) -> dict[str, torch.Tensor]:
    """One batch in the form of a collator: ids with `begin` begin tokens, labels, mask; padded left or right where asked."""
    ids = rows(4, number)
    ids[:, :begin] = BOS
    mask = torch.ones_like(ids)
    for row in range(1, 4):
        width = 3 * row
        if pad == "left":
            ids[row] = torch.cat([torch.full((width,), PAD), ids[row, : LENGTH - width]])
            mask[row, :width] = 0
        elif pad == "right":
            ids[row, LENGTH - width :] = PAD
            mask[row, LENGTH - width :] = 0
    labels = ids.masked_fill(mask == 0, -100)
    if pad == "left":
        # The first token of a padded row has nothing to be predicted from.
        labels[torch.arange(4), mask.argmax(dim=1)] = -100
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Shifted once, mean over active targets."""
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)


def subject(**changes: Any) -> dict[str, Any]:
    """Arguments of a healthy check."""
    model = changes.pop("model", None) or Small()
    made = changes.pop("batches", None) or [batch(number) for number in range(10)]
    return {
        "model": model,
        "loss": loss,
        "batches": made,
        "tokenizer": None,
        "declared": Declared(),
        **changes,
    }


def _cased(share: int) -> dict[str, Any]:
    words = [f"w{number}" for number in range(100)]
    texts = [" ".join(words[(7 * n + k) % 100] for k in range(20)) for n in range(60)]
    texts = [
        " ".join(w.upper() if (n % share == 0 and k % 3 == 0) else w for k, w in enumerate(text.split(" ")))
        for n, text in enumerate(texts)
    ]
    return {"tokenizer": Words(words), "texts": texts, "alphabet": set()}


case("TX4", "TEXT-LOSS", "tokenizer", {"foreign": lambda: _cased(1)}, {"foreign": lambda: _cased(30)})


def _begins(doubled: Callable[[int], bool]) -> dict[str, Any]:
    made = [batch(number, begin=2 if doubled(number) else 1) for number in range(10)]
    return {"batches": made, "tokenizer": Words([f"w{n}" for n in range(100)]), "only": ("T3 batches",)}


case(
    "TX13",
    "BOUNDARY-TOKEN",
    "rows",
    {"foreign": lambda: _begins(lambda n: True)},
    {"foreign": lambda: _begins(lambda n: n == 7)},
)
case(
    "DA11",
    "DATA-ORDER",
    "data order",
    {"foreign": lambda: subject(batches=[batch(number // 4) for number in range(16)])},
    {"foreign": lambda: subject(batches=[batch(2 if number == 11 else number) for number in range(16)])},
)


def _prompts(wrong: Callable[[int], bool], late: int = 0) -> dict[str, Any]:
    """A mask of answers beside labels; the loss forgets it in some batches, or it begins too late."""
    made = []
    for number in range(10):
        one = batch(number)
        answers = torch.zeros_like(one["input_ids"])
        answers[:, 10:] = 1
        one["completion_mask"] = answers
        begin = 0 if wrong(number) else 10
        if late and wrong(number):
            begin = 10 + late
        one["labels"][:, :begin] = -100
        made.append(one)
    return subject(batches=made, declared=Declared(loss_on="responses"))


case(
    "TG9",
    "TARGET-MASK",
    "loss|targets|rows",
    {"foreign": lambda: _prompts(lambda n: True)},
    {"foreign": lambda: _prompts(lambda n: n == 4)},
)
case(
    "TG10",
    "TARGET-MASK",
    "loss|targets|rows",
    {"foreign": lambda: _prompts(lambda n: True, late=1)},
    {"foreign": lambda: _prompts(lambda n: n == 4, late=1)},
)
case(
    "MO6",
    "LEAK-DOC",
    "model",
    {"foreign": lambda: subject(model=Small(False), batches=[batch(n, "left") for n in range(10)])},
    {
        "foreign": lambda: subject(
            model=Small(False), batches=[batch(n, "left" if n == 6 else "") for n in range(10)]
        )
    },
)


def _blind(layers: tuple[int, ...]) -> dict[str, Any]:
    model = Small()
    for index in layers:
        model.blocks[index].blind = True
    return subject(model=model)


case("MO7", "NUMERIC", "model", {"foreign": lambda: _blind((0, 1))}, {"foreign": lambda: _blind((1,))})


def _lost(row: int) -> dict[str, Any]:
    model = Small()
    with torch.no_grad():
        model.embed.weight[row] = torch.nan
    return subject(model=model, batches=[batch(n, "right") for n in range(10)])


case("MO8", "NUMERIC", "model", {"foreign": lambda: _lost(PAD)}, {"foreign": lambda: _lost(VOCAB - 1)})


def _half(rate: float, optimizer: Callable[..., Any], **options: Any) -> dict[str, Any]:
    model = Small().bfloat16()
    return subject(model=model, optimizer=optimizer(model.parameters(), lr=rate, **options))


case(
    "OP6",
    "OPT-WIRING",
    "optimizer",
    {"foreign": lambda: _half(1e-7, torch.optim.SGD)},
    {"foreign": lambda: _half(1e-4, torch.optim.SGD)},
)
case(
    "OP7",
    "NUMERIC",
    "optimizer",
    {"foreign": lambda: _half(1e-2, torch.optim.AdamW, weight_decay=0.0)},
    {"foreign": lambda: _half(1e-2, torch.optim.Adam)},
)
