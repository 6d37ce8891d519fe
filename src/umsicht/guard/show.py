"""T4: one batch as people can read it: each token, what it is to predict, and with what weight."""

from __future__ import annotations

from typing import Any

from umsicht.guard.adapt_batch import read_batch, shifted
from umsicht.guard.probes.mask import expected_active, target_ids


def token_text(tokenizer: Any, number: int) -> str:
    """One token as a quoted string."""
    if number < 0:
        return "—"
    if tokenizer is None:
        return str(number)
    try:
        return repr(tokenizer.decode([number]))
    except Exception:  # a foreign tokenizer may raise anything on a single id
        return str(number)


def batch_table(batch: Any, tokenizer: Any = None, *, rows: int = 2, positions: int = 40) -> str:
    """A plain-text table of the first rows and positions: id, token, target, trained or not."""
    example = read_batch(batch)
    offset = shifted([example])
    active = expected_active(example, offset)
    targets = target_ids(example, offset)
    lines = []
    for row in range(min(rows, example.ids.shape[0])):
        lines.append(f"row {row}")
        for position in range(min(positions, example.ids.shape[1])):
            now, then = int(example.ids[row, position]), int(targets[row, position])
            mark = "●" if bool(active[row, position]) else "·"
            document = (
                f" doc {int(example.document_ids[row, position])}" if example.document_ids is not None else ""
            )
            lines.append(
                f"  {position:4} {mark} {now:7} {token_text(tokenizer, now):<20} → {token_text(tokenizer, then)}{document}"
            )
    return "\n".join(lines)
