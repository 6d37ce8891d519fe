"""Reading fine-tuning files. Bad rows are listed by line with the reason; too many of them refuse the data."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from umsicht.findings import Finding, Grade, UserError
from umsicht.record.ids import content_id, file_digest
from umsicht.words import t

from .rows import BadRow, Row, parse

SHOWN = 5


@dataclass(frozen=True)
class Refused:
    """A row that cannot be used: where it stands and why, in words."""

    location: str
    reason: str


@dataclass
class Rows:
    """The usable rows of some files, what was refused, and the files' digests."""

    rows: list[Row] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)

    @property
    def dropped_share(self) -> float:
        """Refused rows ÷ all rows."""
        total = len(self.rows) + len(self.refused)
        return len(self.refused) / total if total else 0.0

    def leave_out(self, entries: Sequence[Refused]) -> None:
        """Drop the rows with these ids; they are reported elsewhere."""
        gone = {entry.location for entry in entries}
        self.rows = [row for row in self.rows if row.id not in gone]

    def findings(self, limit: float) -> list[Finding]:
        """FINETUNE/bad-rows: `stop` above the share `limit`, else `warn`; nothing where every row is usable."""
        if not self.refused:
            return []
        reasons = Counter(entry.reason for entry in self.refused).most_common(3)
        numbers = {
            "refused": len(self.refused),
            "rows": len(self.rows) + len(self.refused),
            "share": round(100 * self.dropped_share, 1),
            "limit": round(100 * limit, 1),
            "reasons": "; ".join(f"{reason} ({count})" for reason, count in reasons),
        }
        examples = tuple(f"{entry.location}: {entry.reason}" for entry in self.refused[:SHOWN])
        grade: Grade = "stop" if self.dropped_share > limit else "warn"
        where = self.refused[0].location
        return [Finding("FINETUNE/bad-rows", grade, "finetune", where, numbers, examples)]


def load(paths: Sequence[str | Path], dialect: str = "auto", kind: type[Row] | None = None) -> Rows:
    """Rows of all files, in order, each with an id that is the hash of its content; a repeated row counts as refused.

    `kind` is what the method needs (`Conversation`, …). Raises `UserError` for a missing, empty or unreadable file.
    """
    out = Rows()
    seen: set[str] = set()
    for path in map(Path, paths):
        if not path.is_file():
            raise UserError(t("finetune.data_missing", path=path), fix=t("finetune.data_missing_fix"))
        out.digests[path.name] = file_digest(path)
        before = len(out.rows) + len(out.refused)
        for location, raw in _raw_rows(path):
            try:
                if isinstance(raw, BadRow):
                    raise raw
                identity = content_id(raw)[:16]
                if identity in seen:
                    raise BadRow("repeated")
                row = parse(raw, dialect, identity)
                if kind is not None and not isinstance(row, kind):
                    raise BadRow("other_kind", type(row).__name__)
                seen.add(identity)
                out.rows.append(row)
            except BadRow as error:
                reason = t(f"finetune.row.{error.reason}", detail=error.detail)
                out.refused.append(Refused(location, reason))
        if len(out.rows) + len(out.refused) == before:
            raise UserError(t("finetune.data_empty", path=path), fix=t("finetune.data_missing_fix"))
    return out


def _raw_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """(place, parsed row or `BadRow`) for each row of a JSONL file or JSON array, gzip or not."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text = data.decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UserError(
            t("finetune.data_unreadable", path=path, reason=error), fix=t("finetune.data_missing_fix")
        ) from error
    if path.name.removesuffix(".gz").endswith(".json") and text.lstrip().startswith("["):
        try:
            rows = json.loads(text)
        except json.JSONDecodeError as error:
            where = f"{path}:{error.lineno}"
            raise UserError(
                t("finetune.data_unreadable", path=path, reason=error.msg),
                where=where,
                fix=t("finetune.data_missing_fix"),
            ) from error
        yield from ((f"{path.name}[{number}]", row) for number, row in enumerate(rows))
        return
    # Not splitlines: U+2028, U+0085 and their like stand unescaped inside the strings of many files.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield f"{path.name}:{number}", json.loads(line)
        except json.JSONDecodeError as error:
            yield f"{path.name}:{number}", BadRow("not_json", error.msg)


def split(rows: Sequence[Row], share: float, seed: int) -> tuple[list[Row], list[Row]]:
    """(training, held out): a row is held out by the hash of its prompt, so equal prompts stay on one side.

    At least one row on each side. Raises `UserError` where there are fewer than two prompts.
    """
    keyed = {row.id: int(content_id([seed, _prompt_of(row)])[:12], 16) / 16**12 for row in rows}
    held = [row for row in rows if keyed[row.id] < share]
    kept = [row for row in rows if keyed[row.id] >= share]
    if rows and (not held or not kept):
        edge = min(keyed.values()) if not held else max(keyed.values())
        moved = [row for row in rows if keyed[row.id] == edge]
        rest = [row for row in rows if keyed[row.id] != edge]
        held, kept = (moved, rest) if not held else (rest, moved)
    if not kept or not held:
        raise UserError(t("finetune.too_few_rows", n=len(rows)), fix=t("finetune.too_few_rows_fix"))
    return kept, held


def _prompt_of(row: Row) -> list[dict[str, str]]:
    messages = row.messages[:-1] if hasattr(row, "messages") else row.prompt
    return [dict(message) for message in messages]
