"""Small models and batches that Umsicht did not write: the checks must know nothing of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

VOCAB = 200


def text(batches: int = 6, rows: int = 3, length: int = 33, seed: int = 0) -> list[torch.Tensor]:
    """Random walks over a sparse table: something that can be learned."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.randint(0, VOCAB, (VOCAB, 3), generator=generator)
    out = []
    for _ in range(batches):
        state = torch.randint(0, VOCAB, (rows,), generator=generator)
        columns = [state]
        for _ in range(length - 1):
            state = table[state, torch.randint(0, 3, (rows,), generator=generator)]
            columns.append(state)
        out.append(torch.stack(columns, 1))
    return out


def pairs(**options: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(inputs, targets already shifted)."""
    return [(ids[:, :-1].contiguous(), ids[:, 1:].contiguous()) for ids in text(**options)]


def hugging(**options: int) -> list[dict[str, torch.Tensor]]:
    """Mappings as a Hugging Face collator makes them: labels are the ids, the model shifts."""
    return [
        {
            "input_ids": ids[:, :-1].contiguous(),
            "labels": ids[:, :-1].clone(),
            "attention_mask": torch.ones_like(ids[:, :-1]),
        }
        for ids in text(**options)
    ]


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The plain loss."""
    return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=-100)


class Nano(nn.Module):
    """A nanoGPT-like module: (logits, loss) with targets, only the last logits without."""

    def __init__(self, width: int = 32, layers: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wte, self.wpe = nn.Embedding(VOCAB, width), nn.Embedding(64, width)
        self.h = nn.ModuleList(NanoBlock(width, dropout) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, VOCAB, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, idx: torch.Tensor, targets: torch.Tensor | None = None) -> Any:
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for block in self.h:
            x = block(x)
        x = self.ln_f(x)
        if targets is None:
            return self.lm_head(x[:, [-1]]), None
        logits = self.lm_head(x)
        return logits, cross_entropy(logits, targets)


class NanoBlock(nn.Module):
    """Attention and a feed-forward network."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = dropout
        self.leaks_when_dropping = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, seq, width = x.shape
        q, k, v = self.qkv(self.ln_1(x)).view(rows, seq, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        drop = self.dropout if self.training else 0.0
        causal = not (self.leaks_when_dropping and drop)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=causal, dropout_p=drop)
        x = x + self.proj(mixed.transpose(1, 2).reshape(rows, seq, width))
        return x + self.out(functional.gelu(self.fc(self.ln_2(x))))


def grouped(model: nn.Module) -> torch.optim.Optimizer:
    """AdamW that decays matrices only."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}], lr=1e-3
    )
