"""Rating outside of Umsicht: a rater's items as CSV or JSONL, filled in anywhere, read back and checked line by line."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import orjson

from umsicht.findings import UserError
from umsicht.ratings.round import Round
from umsicht.record.files import atomic_write
from umsicht.words import t


def export(one: Round, rater: str, path: Path) -> int:
    """Write the rater's items to `path` (`.csv` or `.jsonl`) with an empty answer each; returns how many.

    Every line carries the round's name and the key's digest, so that a file cannot be read back into another round.
    """
    items, done = one.items(rater), one.answers(rater)
    names = [criterion.id for criterion in one.sheet.criteria] if one.kind == "scores" else []
    rows: list[dict[str, Any]] = []
    for item in items:
        row: dict[str, Any] = {
            "round": one.name,
            "key_digest": one.head["key_digest"],
            "rater": rater,
            "item": item.id,
        }
        row |= {"prompt": item.prompt, "left": item.left}
        given = done.get(item.id, {}).get("answer", {} if names else "")
        row |= (
            {name: given.get(name, "") for name in names} if names else {"right": item.right, "answer": given}
        )
        rows.append({**row, "note": done.get(item.id, {}).get("note", "")})
    if path.suffix == ".csv":
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: _armoured(v) for k, v in row.items()} for row in rows)
        # a byte-order mark, because spreadsheets take UTF-8 for something else without it
        atomic_write(path, "\ufeff" + buffer.getvalue())
    elif path.suffix == ".jsonl":
        atomic_write(path, b"".join(orjson.dumps(row) + b"\n" for row in rows))
    else:
        raise UserError(t("ratings.file_kind", file=path), fix=t("ratings.file_kind.fix"))
    return len(rows)


def _armoured(value: Any) -> Any:
    """Model text that a spreadsheet would run as a formula gets an apostrophe before it."""
    return "'" + value if isinstance(value, str) and value[:1] in "=+-@\t\r" and value else value


def read_back(one: Round, path: Path) -> dict[str, int]:
    """Record the answers of a filled-in file; lines without an answer are left for later. Returns answers by rater.

    Nothing is recorded unless every line is right. Raises UserError naming the first line that is not.
    """
    ready: list[tuple[str, str, Any, str]] = []
    known: dict[str, set[str]] = {}
    for number, row in _rows(path):
        where = f"{path}:{number}"
        rater, item = str(row.get("rater", "")), str(row.get("item", ""))
        if row.get("key_digest") != one.head["key_digest"]:
            raise UserError(
                t("ratings.other_round", name=one.name), where=where, fix=t("ratings.other_round.fix")
            )
        if rater not in known:
            known[rater] = {i.id for i in one.items(rater)}
        if item not in known[rater]:
            raise UserError(t("ratings.no_item", item=item), where=where)
        answer = _answer(one, row)
        if answer is not None:
            ready.append((rater, item, _checked(one, answer, where), str(row.get("note") or "")))
    counts: dict[str, int] = {}
    for rater, item, answer, note in ready:
        if one.answers(rater).get(item, {}).get("answer") != answer:
            one.answer(rater, item, answer, note=note)
        counts[rater] = counts.get(rater, 0) + 1
    return counts


def _checked(one: Round, answer: Any, where: str) -> Any:
    from umsicht.ratings.round import check_answer

    try:
        return check_answer(answer, one.kind, one.sheet)
    except UserError as error:
        raise UserError(error.what, where=where, why=error.why, fix=error.fix) from None


def _answer(one: Round, row: dict[str, Any]) -> Any:
    if one.kind == "pairwise":
        value = row.get("answer")
        return None if value is None or not str(value).strip() else value
    levels = {c.id: row.get(c.id) for c in one.sheet.criteria}
    filled = {name: level for name, level in levels.items() if level is not None and str(level).strip()}
    return None if not filled else {name: filled.get(name, "") for name in levels}


def _rows(path: Path) -> list[tuple[int, dict[str, Any]]]:
    if not path.is_file():
        raise UserError(t("ratings.file_missing", file=path))
    if path.suffix == ".csv":
        text = _text(path).removeprefix("\ufeff")
        sample = text[: text.find("\n")]
        delimiter = ";" if sample.count(";") > sample.count(",") else ","
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
        return [(reader.line_num, dict(row)) for row in reader]
    if path.suffix == ".jsonl":
        found = []
        for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
            if not line.strip():
                continue
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise UserError(
                    t("ratings.file_broken", file=path), where=f"{path}:{number}: {error}"
                ) from None
            found.append((number, row if isinstance(row, dict) else {}))
        return found
    raise UserError(t("ratings.file_kind", file=path), fix=t("ratings.file_kind.fix"))


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            t("ratings.file_broken", file=path), where=f"{path}: {error}", fix=t("ratings.file_broken.fix")
        ) from None
