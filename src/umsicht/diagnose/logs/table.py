"""CSV and TSV: any delimiter, decimal points or commas, a column map, exports of Weights & Biases and of Lightning."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from umsicht.diagnose.curves import Curves, Damage
from umsicht.diagnose.logs import names
from umsicht.diagnose.logs.rows import MISSING, Columns, build, number
from umsicht.diagnose.logs.text import decode, read_bytes
from umsicht.findings.errors import UserError
from umsicht.words import t

DELIMITERS = "\t;,|"
_COMMA_NUMBER = re.compile(r"^[+-]?\d{1,3}(\.\d{3})*,\d+([eE][+-]?\d+)?$|^[+-]?\d+,\d+([eE][+-]?\d+)?$")
_THOUSANDS = re.compile(r"^\d{1,3}(,\d{3})+$")


def read_table(path: Path, columns: Mapping[str, str] | None = None) -> Curves:
    """Curves of a delimited table. Raises UserError where it has no header, no usable column, or holds several runs."""
    text = decode(read_bytes(path))
    damage = Damage()
    torn = bool(text) and not text.endswith(("\n", "\r"))
    table = _split(text)
    if len(table) < 2:
        raise UserError(
            t("diagnose.log.empty", path=path), where=str(path), fix=t("diagnose.log.unknown.fix")
        )
    header = [name.strip().strip("\ufeff") for name in table[0]]
    body = table[1:]
    if torn and len(body) > 1 and len(body[-1]) < len(header):
        body.pop()
        damage.torn += 1
    header, body, wandb = _without_run_prefix(header, body, columns, path)
    header, body = _one_run(header, body, columns, path)
    mapped = names.mapping(header, columns)
    _check_map(columns, header, path)
    at = {ours: header.index(theirs) for theirs, ours in mapped.items() if theirs in header}
    found = _parse(body, at, len(header), damage)
    if not any(name.startswith(("train", "val")) for name in found.steps):
        raise UserError(
            t("diagnose.log.no_column", columns=", ".join(header[:12])),
            where=str(path),
            fix="--column train/loss=NAME --column val/all/loss=NAME",
        )
    made = build(
        found,
        source=str(path),
        format="wandb-csv" if wandb else "table",
        rows=len(body),
        damage=damage,
        wanted=[name for name in columns or {} if name != names.RUN],
    )
    if names.STEP not in at:
        damage.notes = (*damage.notes, "no-step-column")
    return made


def _split(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        return []
    sample = lines[:20]
    # The delimiter whose count is the same in most lines, and largest; tabs and semicolons win ties against commas.
    scores = {
        mark: (sum(line.count(mark) == sample[0].count(mark) for line in sample) if mark in sample[0] else 0)
        for mark in DELIMITERS
    }
    best = max(
        DELIMITERS, key=lambda mark: (scores[mark], sample[0].count(mark) > 0, -DELIMITERS.index(mark))
    )
    return list(csv.reader(io.StringIO("\n".join(lines)), delimiter=best))


def _check_map(columns: Mapping[str, str] | None, header: list[str], path: Path) -> None:
    for name, column in (columns or {}).items():
        if name != names.RUN and column not in header:
            raise UserError(
                t("diagnose.log.column_missing", column=column, columns=", ".join(header[:12])),
                where=str(path),
                fix=f"--column {name}=NAME",
            )


def _without_run_prefix(
    header: list[str], body: list[list[str]], columns: Mapping[str, str] | None, path: Path
) -> tuple[list[str], list[list[str]], bool]:
    """W&B writes `RUN - metric` with `__MIN` and `__MAX` beside it: keep one run's columns under the metric's own name."""
    split = [re.fullmatch(r"(.+) - ([^-]+?)(__MIN|__MAX)?", name) for name in header]
    if not any(match and not match[3] for match in split):
        return header, body, False
    runs = list(dict.fromkeys(match[1] for match in split if match))
    wanted = (columns or {}).get(names.RUN)
    if wanted is None and len(runs) > 1:
        raise _several(runs, path)
    chosen = wanted or runs[0]
    kept = [
        index
        for index, match in enumerate(split)
        if match is None or (match[1] == chosen and not match[3] and match[2] != "_step")
    ]
    renamed = [split[index][2] if split[index] else header[index] for index in kept]  # type: ignore[index]
    return renamed, [[row[index] for index in kept if index < len(row)] for row in body], True


def _one_run(
    header: list[str], body: list[list[str]], columns: Mapping[str, str] | None, path: Path
) -> tuple[list[str], list[list[str]]]:
    """A table that names a run in each row: keep the rows of one."""
    at = next((index for index, name in enumerate(header) if names.canonical(name) == names.RUN), None)
    if at is None:
        return header, body
    runs = list(dict.fromkeys(row[at] for row in body if len(row) > at))
    wanted = (columns or {}).get(names.RUN)
    if wanted is None and len(runs) > 1:
        raise _several(runs, path)
    return header, [row for row in body if len(row) > at and row[at] == (wanted or runs[0])]


def _several(runs: list[str], path: Path) -> UserError:
    return UserError(
        t("diagnose.log.several", n=len(runs), runs=", ".join(runs[:8])),
        where=str(path),
        fix="--column run=NAME",
    )


def _parse(body: list[list[str]], at: dict[str, int], width: int, damage: Damage) -> Columns:
    """Every mapped cell as a number; rows with the wrong number of cells or unreadable cells are counted."""
    cells = {
        name: [row[index] if index < len(row) else "" for row in body]
        for name, index in at.items()
        if name not in (names.RUN, names.TIME)
    }
    damage.unreadable += sum(len(row) > width for row in body)
    steps = _steps(cells.pop(names.STEP, None), len(body), damage)
    found = Columns()
    for name, column in cells.items():
        comma = _decimal_comma(column)
        values = []
        for cell in column:
            try:
                values.append(number(cell, decimal_comma=comma))
            except ValueError:
                damage.unreadable += 1
                values.append(None)
        for index in _present(values):
            step = steps[index]
            value = values[index]
            if step is not None and value is not None:
                found.add(name, step, value)
    return found


def _steps(column: list[str] | None, rows: int, damage: Damage) -> list[int | None]:
    if column is None:
        return list(range(1, rows + 1))
    comma = _decimal_comma(column) and not all(_THOUSANDS.match(c.strip()) or "," not in c for c in column)
    steps: list[int | None] = []
    for cell in column:
        text = cell.replace(",", "") if _THOUSANDS.match(cell.strip()) and not comma else cell
        try:
            value = number(text, decimal_comma=comma)
        except ValueError:
            value = None
        if value is None or not np.isfinite(value):
            damage.unreadable += cell.strip().lower() not in MISSING
            steps.append(None)
        else:
            steps.append(round(value))
    return steps


def _decimal_comma(column: list[str]) -> bool:
    """Whether a column's numbers have decimal commas: some look like it, and none has a point as its only mark."""
    cells = [cell.strip().strip('"') for cell in column[:2_000]]
    commas = sum(bool(_COMMA_NUMBER.match(cell)) for cell in cells)
    points = sum("." in cell and "," not in cell for cell in cells)
    return commas > 0 and commas > points


def _present(values: list[float | None]) -> list[int]:
    """Indices of real measurements.

    Many tools fill the rows in which a metric was not measured with NaN. Where finite values stand among many NaN, these are holes; only NaN
    after the last finite value, for longer than twice the usual distance, are measurements that failed.
    """
    there = np.array([value is not None for value in values])
    numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    nan = there & np.isnan(numbers)
    finite = np.flatnonzero(there & ~np.isnan(numbers))
    if not nan.any() or len(finite) < 2 or np.count_nonzero(nan) < 0.3 * np.count_nonzero(there):
        return [int(i) for i in np.flatnonzero(there)]
    last, gap = int(finite[-1]), float(np.median(np.diff(finite)))
    inside = np.count_nonzero(nan[:last])
    if inside < 0.3 * last:
        return [int(i) for i in np.flatnonzero(there)]
    keep = there & ~nan
    if len(values) - 1 - last > 2 * gap:
        keep |= nan & (np.arange(len(values)) > last)
    return [int(i) for i in np.flatnonzero(keep)]
