"""Fine-tuning rows pass the same sieve as the corpus: what stands in a protected set is not trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from umsicht.findings import Finding
from umsicht.words import t

from .loading import Refused
from .rows import Conversation, Preference, Row

if TYPE_CHECKING:
    from umsicht.corpus.protect import Hit


def texts_of(row: Row) -> str:
    """Everything a row would teach or show, one text a line."""
    if isinstance(row, Conversation):
        return "\n".join(message["content"] for message in row.messages)
    prompt = "\n".join(message["content"] for message in row.prompt)
    if isinstance(row, Preference):
        return f"{prompt}\n{row.chosen}\n{row.rejected}"
    return f"{prompt}\n{row.answer}"


def protected_rows(rows: Sequence[Row], recipe: Mapping[str, Any], root: Path) -> list[Refused]:
    """Rows that hold text of a set that the base's recipe protects (`corpus.protect`, paths relative to `root`).

    Raises `UserError` where a protected set cannot be read: an unread set protects nothing.
    """
    declared = recipe.get("corpus", {}).get("protect") or []
    if not declared or not rows:
        return []
    from umsicht.corpus.kernels.spans import spans_from
    from umsicht.corpus.protect import fingerprint, scan
    from umsicht.corpus.protected_sets import plan_protected
    from umsicht.recipe.corpus import ProtectedSettings

    sets = tuple(ProtectedSettings.model_validate(entry) for entry in declared)
    known = fingerprint(plan_protected(sets, root).pieces())
    hits: dict[int, Hit] = {}
    for hit in scan(spans_from([texts_of(row) for row in rows]), known):
        hits.setdefault(hit.text, hit)
    return [
        Refused(rows[n].id, t("finetune.row.protected", detail=hit.detail)) for n, hit in sorted(hits.items())
    ]


def finding(hits: Sequence[Refused], total: int) -> list[Finding]:
    """FINETUNE/contaminated, grade `warn`: the rows were left out."""
    if not hits:
        return []
    numbers = {"rows": len(hits), "of": total, "share": round(100 * len(hits) / total, 1)}
    examples = tuple(f"{hit.location}: {hit.reason}" for hit in hits[:5])
    return [Finding("FINETUNE/contaminated", "warn", "finetune", hits[0].location, numbers, examples)]
