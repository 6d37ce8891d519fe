"""Tables and pairs that the pages and the report share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from umsicht.dashboard import numbers
from umsicht.dashboard.facts import RunFacts, mapping
from umsicht.record.columns import Columns
from umsicht.words import t

BASELINES = ("xz", "xz_context", "ngram")


@dataclass(frozen=True)
class BaselineRow:
    """One slice: the model's bits per byte beside the baselines'; `beats` names those it is below."""

    slice: str
    bytes: int | None
    model: float | None
    baselines: Mapping[str, float | None]

    @property
    def beats(self) -> tuple[str, ...]:
        if self.model is None:
            return ()
        return tuple(
            name for name, value in self.baselines.items() if value is not None and self.model < value
        )


def baseline_rows(facts: RunFacts, columns: Columns) -> list[BaselineRow]:
    """From the newest evaluation that has slices; the model's figure falls back to the last validation of the curve."""
    newest = next((item for item in reversed(facts.evaluations) if mapping(item.get("slices"))), {})
    measured = mapping(newest.get("slices"))
    found = facts.artifact("baselines")
    separate = mapping(newest.get("baselines"))
    known = mapping(separate.get("slices")) or separate or mapping(found[2].get("slices") if found else None)
    rows = []
    for name in sorted({*measured, *(known or {})}):
        ours, theirs = mapping(measured.get(name)), mapping(known.get(name))
        model = _first(ours, "bpb", "bits_per_byte")
        if model is None:
            model = columns.last(f"val/{name}/bpb")
        theirs = {**mapping(ours.get("baselines")), **theirs}
        baselines = {label: _first(theirs, label, f"{label}5") or _first(ours, label) for label in BASELINES}
        size = _first(ours, "bytes") or _first(theirs, "bytes")
        rows.append(BaselineRow(name, int(size) if size is not None else None, model, baselines))
    return [row for row in rows if row.model is not None]


def _first(source: Mapping[str, Any], *names: str) -> float | None:
    for name in names:
        value = source.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    return None


@dataclass(frozen=True)
class Tile:
    """One headline figure."""

    label: str
    value: str
    note: str = ""


def tiles(facts: RunFacts, columns: Columns, lang: str) -> list[Tile]:
    """Step and tokens, training and validation, gap, gradient norm, throughput: what is there of them."""
    made: list[Tile] = []

    def add(name: str, key: str, digits: int = 3, note: str = "") -> None:
        value = columns.last(key)
        if value is not None:
            made.append(
                Tile(t(f"dashboard.tile.{name}", lang=lang), numbers.number(value, lang, digits), note)
            )

    if columns.n:
        planned = _first(facts.manifest, "planned_steps")
        step = float(columns.step[-1])
        note = t("dashboard.tile.of", lang=lang, total=numbers.number(int(planned), lang)) if planned else ""
        made.append(Tile(t("dashboard.tile.step", lang=lang), numbers.number(int(step), lang), note))
        made.append(
            Tile(t("dashboard.tile.tokens", lang=lang), numbers.compact(float(columns.tokens[-1]), lang))
        )
    add("train", "train/loss", note=t("dashboard.unit.nats", lang=lang))
    add("val", "val/all/loss", note=t("dashboard.unit.nats", lang=lang))
    add("bpb", "val/all/bpb", note=t("dashboard.unit.bits", lang=lang))
    add("gap", "derived/gap")
    add("grad", "train/grad_norm", 2)
    rate = columns.last("train/tokens_per_s")
    if rate is not None:
        made.append(
            Tile(
                t("dashboard.tile.rate", lang=lang),
                numbers.compact(round(rate), lang),
                t("dashboard.unit.per_second", lang=lang),
            )
        )
    return made


def run_seconds(columns: Columns) -> float | None:
    """Time spent training: within attempts only, pauses between them left out."""
    if columns.n < 2:
        return None
    gaps = columns.time[1:] - columns.time[:-1]
    same = columns.segment[1:] == columns.segment[:-1]
    return float(gaps[same & (gaps > 0)].sum())


def sheet(facts: RunFacts, columns: Columns, lang: str, *, redact: bool = False) -> list[tuple[str, str]]:
    """The measurement sheet: under which conditions these figures hold. `redact` leaves out paths and machine names."""
    manifest = facts.manifest
    model, hardware = mapping(manifest.get("model")), mapping(manifest.get("hardware"))
    code, versions = (
        mapping(manifest.get("code")),
        mapping(mapping(manifest.get("environment")).get("libraries")),
    )
    pairs: list[tuple[str, object]] = [
        ("state", t(f"dashboard.state.{manifest.get('state', 'unknown')}", lang=lang)),
        ("outcome", mapping(manifest.get("outcome")).get("reason")),
        ("seed", manifest.get("seed")),
        ("parameters", _big(_first(model, "n_parameters", "parameters"), lang)),
        ("model", _short_model(model)),
        ("steps", numbers.number(int(columns.step[-1]), lang) if columns.n else None),
        ("tokens", _big(float(columns.tokens[-1]), lang) if columns.n else None),
        ("train_loss", _figure(columns.last("train/loss"), lang)),
        ("val_loss", _figure(columns.last("val/all/loss"), lang)),
        ("val_bpb", _figure(columns.last("val/all/bpb"), lang)),
        ("seconds", numbers.duration(run_seconds(columns))),
        ("attempts", manifest.get("segments")),
        ("hardware", _hardware(hardware, lang)),
        (
            "code",
            " ".join(
                str(part) for part in (code.get("umsicht"), str(code.get("git_commit") or "")[:12]) if part
            ),
        ),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
        ("created", manifest.get("created")),
    ]
    pairs += [
        (f"input.{role}", identity)
        for role, identity in mapping(manifest.get("inputs")).items()
        if not redact or ":" not in role
    ]
    newest = next((item for item in reversed(facts.checkpoints) if item.whole), None)
    pairs.append(("checkpoint", newest.name if newest else None))
    return [(_label(name, lang), str(value)) for name, value in pairs if value not in (None, "", "–")]


def _label(name: str, lang: str) -> str:
    if name.startswith("input."):
        return t("dashboard.sheet.input", lang=lang, kind=name.removeprefix("input."))
    return t(f"dashboard.sheet.{name}", lang=lang)


def _big(value: float | None, lang: str) -> str | None:
    return None if value is None else numbers.compact(value, lang)


def _figure(value: float | None, lang: str) -> str | None:
    return None if value is None else numbers.number(value, lang, 4)


def _short_model(model: Mapping[str, Any]) -> str:
    config = {**model, **mapping(model.get("config"))}
    names = ("family", "d_model", "n_layers", "n_heads", "n_kv_heads", "seq_len", "vocab_size")
    return ", ".join(f"{name} {config[name]}" for name in names if name in config)


def _hardware(hardware: Mapping[str, Any], lang: str) -> str:
    parts = [str(hardware.get("gpu") or hardware.get("cpu") or "")]
    if hardware.get("cores"):
        parts.append(t("dashboard.sheet.cores", lang=lang, n=hardware["cores"]))
    memory = _first(hardware, "memory_bytes")
    if memory:
        parts.append(numbers.size(memory, lang))
    return ", ".join(part for part in parts if part)
