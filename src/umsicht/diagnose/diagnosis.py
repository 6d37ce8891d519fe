"""`diagnose()`: from a run folder or a foreign log to a verdict with evidence and next steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from umsicht.diagnose import also as extras
from umsicht.diagnose import gap as gaps
from umsicht.diagnose import next_steps, sawtooth
from umsicht.diagnose.curves import Curves
from umsicht.diagnose.decide import decide
from umsicht.diagnose.events import find_events
from umsicht.diagnose.facts import gather
from umsicht.diagnose.logs import read_log
from umsicht.diagnose.model import Diagnosis, Evidence
from umsicht.diagnose.record_reader import apply_manifest, from_columns
from umsicht.diagnose.rules import Case, Ruling
from umsicht.diagnose.thresholds import DEFAULT, Thresholds
from umsicht.diagnose.written import written
from umsicht.record.columns import Columns
from umsicht.record.manifest import read_manifest
from umsicht.words import t


def diagnose(
    run: Path | str,
    *,
    columns: Mapping[str, str] | None = None,
    vocab_size: int | None = None,
    limits: Thresholds = DEFAULT,
) -> Diagnosis:
    """Diagnose a run folder, a `metrics.jsonl`, or a log of another tool.

    `columns` maps Umsicht's metric names to the log's own (`{"train/loss": "Verlust"}`); `vocab_size` gives the initial loss ln V where
    a log does not begin with the training. Raises UserError for a path that holds nothing readable.
    """
    path = Path(run)
    curves = read_log(path, columns=columns)
    if vocab_size is not None:
        curves.vocab_size = vocab_size
    manifest = (read_manifest(path) or {}) if path.is_dir() else {}
    return judge(curves, settings=_settings(manifest, path), limits=limits)


def diagnose_columns(folder: Path, columns: Columns) -> Diagnosis:
    """Diagnose a run folder whose record was read as columns already."""
    manifest = read_manifest(folder) or {}
    curves = from_columns(columns, 0, str(folder))
    apply_manifest(curves, manifest)
    return judge(curves, settings=_settings(manifest, folder))


def judge(
    curves: Curves, *, settings: Mapping[str, Any] | None = None, limits: Thresholds = DEFAULT
) -> Diagnosis:
    """Diagnose curves that were read already."""
    facts = gather(curves, limits)
    events = find_events(curves, limits)
    saw = sawtooth.find(curves, limits)
    if saw is not None:
        events = (*events, saw)
    case = Case(curves, facts, events, limits)
    ruling, missing = decide(case)
    gap = gaps.analyse(curves, limits)
    also = extras.find(case, gap, ruling)
    own = curves.format == "umsicht"
    return Diagnosis(
        verdict=ruling.verdict,
        confidence=ruling.confidence,
        reason=ruling.reason,
        evidence=_evidence(ruling),
        next_steps=next_steps.build(
            ruling.reason,
            ruling.causes,
            curves.source,
            own=own,
            settings=settings or {},
            also=[one.id for one in also],
        ),
        events=events,
        also=also,
        gap=gap,
        causes=ruling.causes,
        missing=missing,
        facts=_facts(case, ruling),
        read={
            "source": curves.source,
            "format": curves.format,
            "rows": curves.rows,
            **curves.damage.to_dict(),
        },
        title=t(f"diagnose.verdict.{ruling.verdict}"),
        summary=_summary(ruling),
    )


def _evidence(ruling: Ruling) -> tuple[Evidence, ...]:
    """Each cited number once."""
    found: dict[tuple[str, int], Evidence] = {}
    for citation in ruling.citations:
        item = citation.evidence
        found.setdefault((item.metric, item.step), item)
    return tuple(found.values())


def _summary(ruling: Ruling) -> str:
    shown = written(ruling.numbers)
    if "would_be" in shown:
        shown["would_be"] = t(f"diagnose.verdict.{ruling.numbers['would_be']}")
    return t(f"diagnose.reason.{ruling.reason}", **shown)


def _facts(case: Case, ruling: Ruling) -> dict[str, Any]:
    facts, curves = case.facts, case.curves
    return {
        "initial_loss": facts.initial,
        "train_best": facts.train_best,
        "train_end": facts.train_end,
        "val_best": facts.val_best,
        "val_best_step": facts.val_best_step,
        "val_end": facts.val_end,
        "unit": facts.unit,
        "last_step": curves.last_step,
        "planned_steps": curves.planned_steps,
        "still_falling": facts.still_falling,
        **{f"rule_{key}": value for key, value in ruling.numbers.items()},
    }


def _of(place: Any, *keys: str) -> Any:
    """What lies under `keys`, or None."""
    for key in keys:
        place = place.get(key) if isinstance(place, Mapping) else None
    return place


def _settings(manifest: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The present values that a next step would change, as far as the manifest knows them."""
    train = _of(manifest, "recipe", "train")
    found: dict[str, Any] = {
        "matrix_rate": _of(train, "optimizer", "matrix_rate") or _of(manifest, "resolved", "rates", "matrix"),
        "budget": _of(train, "budget"),
        "d_model": _of(manifest, "recipe", "model", "d_model") or _of(manifest, "model", "d_model"),
        "document_mask": _of(train, "document_mask"),
        "warmup_share": _of(train, "schedule", "warmup_share"),
        "decay_share": _of(train, "schedule", "decay_share"),
        "precision": _of(manifest, "machine", "precision"),
    }
    optimizer = _of(train, "optimizer")
    if isinstance(optimizer, Mapping) and "clip_norm" in optimizer:
        found["clip_norm"] = optimizer["clip_norm"]
    if path.is_dir() and path.parent.name == "runs":
        found["project"] = str(path.parent.parent)
    for candidate in (path.parent.parent / "recipe.yaml", path / "recipe.yaml"):
        if candidate.is_file():
            found["recipe"] = str(candidate)
            break
    return found
