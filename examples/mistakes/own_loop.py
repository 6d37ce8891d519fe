"""A training loop of somebody else's making, small enough to read: one block of attention over bytes, AdamW, no part of Umsicht's trainer.

    python own_loop.py check|train shifted|right

`shifted` plants the mistake target-shift: the data are shifted by one, and the loss shifts them again.
"""

from __future__ import annotations

import json
import math
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

SEQ, ROWS, WIDTH = 64, 16, 96
Batch = tuple[Tensor, Tensor]


class Small(nn.Module):
    """Bytes in, logits out."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(256, WIDTH)
        self.position = nn.Embedding(SEQ, WIDTH)
        self.norm, self.last = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 256, bias=False)
        for table in (self.embed, self.position, self.head):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        """`[rows, seq]` → `[rows, seq, 256]`."""
        x = self.embed(ids) + self.position(torch.arange(ids.shape[1]))
        q, k, v = self.query(self.norm(x)).chunk(3, -1)
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        x = x + self.down(functional.gelu(self.up(self.last(x))))
        return self.head(x)  # type: ignore[no-any-return]


def text() -> Tensor:
    """Some of Python's own source code, as bytes."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    whole = b"".join(
        (folder / name).read_bytes() for name in ("argparse.py", "ast.py", "inspect.py", "typing.py")
    )
    return torch.tensor(list(whole), dtype=torch.long)


def batches(data: Tensor, count: int, seed: int) -> Iterator[Batch]:
    """(ids, targets): the targets are the next bytes."""
    dice = torch.Generator().manual_seed(seed)
    for _ in range(count):
        starts = torch.randint(0, len(data) - SEQ - 1, (ROWS,), generator=dice)
        yield (
            torch.stack([data[s : s + SEQ] for s in starts]),
            torch.stack([data[s + 1 : s + SEQ + 1] for s in starts]),
        )


def right(logits: Tensor, targets: Tensor) -> Tensor:
    """The targets are shifted already."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def shifted(logits: Tensor, targets: Tensor) -> Tensor:
    """Shifts what is shifted already: position t is trained on byte t+2."""
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten())


def main(what: str, how: str) -> None:
    """Check the loop, or train it and score the next byte of text it has not seen."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loss = {"shifted": shifted, "right": right}[how]
    data, model = text(), Small()
    train, held = data[: 9 * len(data) // 10], data[9 * len(data) // 10 :]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    if what == "check":
        from umsicht import guard

        report = guard.check(model=model, loss=loss, batches=list(batches(train, 4, 0)), optimizer=optimizer)
        print(json.dumps({"findings": [finding.to_dict() for finding in report]}, default=str))
        return
    for ids, targets in batches(train, 250, 0):
        optimizer.zero_grad()
        loss(model(ids), targets).backward()
        optimizer.step()
    with torch.no_grad():
        scores = [float(right(model(ids), targets)) for ids, targets in batches(held, 20, 1)]
    print(json.dumps({"bits_per_byte": sum(scores) / len(scores) / math.log(2)}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
