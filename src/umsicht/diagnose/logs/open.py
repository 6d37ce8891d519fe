"""Which reader a path needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from umsicht.diagnose.curves import Curves
from umsicht.diagnose.record_reader import from_metrics, read_run
from umsicht.findings.errors import UserError
from umsicht.record.metrics import read_metrics
from umsicht.words import t


def read_log(path: Path | str, *, columns: Mapping[str, str] | None = None) -> Curves:
    """Curves of a run folder or a log file. Raises UserError where nothing readable is there."""
    path = Path(path)
    if not path.exists():
        raise UserError(
            t("diagnose.log.missing", path=path), where=str(path), fix=t("diagnose.log.missing.fix")
        )
    if path.is_dir() and (path / "metrics.jsonl").exists():
        return read_run(path)
    if path.suffix == ".jsonl":
        curves = from_metrics(read_metrics(path), str(path))
        curves.format = "metrics.jsonl"
        return curves
    raise UserError(t("diagnose.log.unknown", path=path), where=str(path), fix=t("diagnose.log.unknown.fix"))
