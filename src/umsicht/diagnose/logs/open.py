"""Which reader a path needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import orjson

from umsicht.diagnose.curves import Curves
from umsicht.diagnose.logs.jsonl import read_jsonl_log
from umsicht.diagnose.logs.lines import looks_like, read_lines
from umsicht.diagnose.logs.printed import looks_printed, read_printed
from umsicht.diagnose.logs.table import read_table
from umsicht.diagnose.logs.tensorboard import event_files, read_tensorboard
from umsicht.diagnose.logs.text import decode, read_bytes
from umsicht.diagnose.logs.trainer_state import find as find_trainer_state
from umsicht.diagnose.logs.trainer_state import read_trainer_state
from umsicht.diagnose.record_reader import read_run
from umsicht.findings.errors import UserError
from umsicht.words import t

_TABLES = (".csv", ".tsv", ".tab")


def read_log(path: Path | str, *, columns: Mapping[str, str] | None = None) -> Curves:
    """Curves of a run folder or a log file. Raises UserError where nothing readable is there."""
    path = Path(path)
    if not path.exists():
        raise UserError(
            t("diagnose.log.missing", path=path), where=str(path), fix=t("diagnose.log.missing.fix")
        )
    return _read_folder(path, columns) if path.is_dir() else _read_file(path, columns)


def _read_folder(path: Path, columns: Mapping[str, str] | None) -> Curves:
    if (path / "metrics.jsonl").exists():
        return read_run(path)
    state = find_trainer_state(path)
    if state is not None:
        return read_trainer_state(state)
    if event_files(path):
        return read_tensorboard(path)
    for name in ("metrics.csv", "log.csv", "progress.csv"):
        if (path / name).exists():
            return read_table(path / name, columns)
    raise _unknown(path)


def _read_file(path: Path, columns: Mapping[str, str] | None) -> Curves:
    name = path.name.removesuffix(".gz").removesuffix(".zst").lower()
    if "tfevents" in name:
        return read_tensorboard(path)
    if path.stat().st_size == 0:
        raise UserError(
            t("diagnose.log.empty", path=path), where=str(path), fix=t("diagnose.log.unknown.fix")
        )
    if name.endswith((".jsonl", ".ndjson")):
        return read_jsonl_log(path, columns)
    if name.endswith(".json"):
        return read_trainer_state(path)
    if name.endswith(_TABLES):
        return read_table(path, columns)
    data = read_bytes(path)
    text = decode(data[:200_000])
    if _is_json_line(text):
        return read_jsonl_log(path, columns)
    if looks_printed(text):
        return read_printed(path, columns)
    if looks_like(text):
        return read_lines(path)
    first = text.split("\n", 1)[0]
    if b"\x00" not in data[:1_000] and any(mark in first for mark in "\t;,"):
        return read_table(path, columns)
    raise _unknown(path)


def _is_json_line(text: str) -> bool:
    first = text.lstrip().split("\n", 1)[0]
    if not first.startswith("{"):
        return False
    try:
        return isinstance(orjson.loads(first), dict)
    except orjson.JSONDecodeError:
        return False


def _unknown(path: Path) -> UserError:
    return UserError(t("diagnose.log.unknown", path=path), where=str(path), fix=t("diagnose.log.unknown.fix"))
