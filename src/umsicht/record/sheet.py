"""The measurement sheet: under which conditions a run's figures hold, on one page. Shown by `umsicht show RUN`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from umsicht.record.ids import file_digest
from umsicht.record.manifest import MANIFEST, read_manifest
from umsicht.record.metrics import Metrics, spell, unspell
from umsicht.record.run import Run, read_jsonl
from umsicht.words import numerals, t

if TYPE_CHECKING:
    from rich.console import Group

SCHEMA = 1
SHOWN_SAMPLES = 3


@dataclass
class Sheet:
    """Facts by section in the order they are shown; each value is plain JSON, None where the record does not hold it."""

    run: str
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON, nothing shortened."""
        plain: dict[str, Any] = spell({"schema": SCHEMA, "run": self.run, **self.sections})
        return plain

    def lines(self) -> list[tuple[str, str, str]]:
        """(section, name, value) as shown to people; nested facts become `a.b`."""
        return [
            (section, name, _worded(section, name, value))
            for section, facts in self.sections.items()
            for name, value in _flat(facts)
            if value != ""
        ]

    def to_markdown(self) -> str:
        """Two columns a section; to paste into an issue or a model card."""
        parts = [f"# {t('record.sheet.title', run=self.run)}", ""]
        for section in self.sections:
            rows = [(name, value) for owner, name, value in self.lines() if owner == section]
            if not rows:
                continue
            parts += [f"## {t(f'record.sheet.{section}')}", "", "| | |", "|---|---|"]
            parts += [f"| {_label(section, name)} | {_cell(value)} |" for name, value in rows]
            parts.append("")
        return "\n".join(parts)

    def to_table(self) -> Group:
        """For the terminal."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        blocks: list[Any] = [Text(t("record.sheet.title", run=self.run), style="bold")]
        for section in self.sections:
            rows = [(name, value) for owner, name, value in self.lines() if owner == section]
            if not rows:
                continue
            table = Table(title=t(f"record.sheet.{section}"), box=None, show_header=False, pad_edge=False)
            table.title_justify, table.title_style = "left", "bold cyan"
            table.add_column(overflow="fold", style="dim")
            table.add_column(overflow="fold")
            for name, value in rows:
                table.add_row(Text("  " + _label(section, name)), Text(value))
            blocks.append(table)
        return Group(*blocks)


def sheet(run: Run) -> Sheet:
    """Gather the sheet of a run from its record; whatever is missing is left out, never guessed."""
    metrics = run.metrics()
    manifest = run.manifest
    made = Sheet(run.name)
    made.sections = {
        "identity": _identity(run),
        "checkpoint": _checkpoint(run),
        "made_from": _made_from(manifest),
        "progress": _progress(metrics, manifest),
        "training": _training(metrics),
        "validation": _validation(run, metrics),
        "findings": _findings(run),
        "samples": _samples(run),
        "ratings": _ratings(run),
        "machine": _machine(manifest),
        "versions": _versions(manifest),
        "configuration": _mapping(manifest.get("recipe")),
    }
    return made


def _identity(run: Run) -> dict[str, Any]:
    manifest = run.manifest
    outcome = _mapping(manifest.get("outcome"))
    return {
        "id": manifest.get("id"),
        "name": manifest.get("name"),
        "state": manifest.get("state"),
        "outcome": outcome.get("reason"),
        "seed": manifest.get("seed"),
        "parent": manifest.get("parent"),
        "changes": manifest.get("changes"),
        "confounded": manifest.get("confounded"),
        "created": manifest.get("created"),
    }


def _checkpoint(run: Run) -> dict[str, Any]:
    """The newest checkpoint that has its manifest; its hash is that of the manifest, which holds the hash of every file."""
    if not run.checkpoints.is_dir():
        return {}
    for folder in sorted(run.checkpoints.glob("step-*"), reverse=True):
        manifest = read_manifest(folder)
        if manifest is None:
            continue
        files = _mapping(manifest.get("files"))
        weights = _mapping(files.get("model.safetensors"))
        return {
            "name": folder.name,
            "step": manifest.get("step"),
            "sha256": file_digest(folder / MANIFEST),
            "weights_sha256": weights.get("sha256"),
            "bytes": sum(int(entry.get("bytes", 0)) for entry in files.values()),
        }
    return {}


def _made_from(manifest: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = dict(_mapping(manifest.get("inputs")))
    if manifest.get("tokenizer_digest"):
        found["tokenizer_digest"] = manifest["tokenizer_digest"]
    return found


def _progress(metrics: Metrics, manifest: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "steps": metrics.last("step"),
        "planned_steps": manifest.get("planned_steps"),
        "tokens": metrics.last("tokens"),
        "planned_tokens": manifest.get("planned_tokens"),
        "epochs": metrics.last("train/epoch"),
        "run_time_s": run_time_s(metrics),
        "restarts": max(0, int(manifest.get("segments", 1) or 1) - 1),
    }
    parameters = _mapping(manifest.get("model")).get("n_parameters")
    if parameters is not None:
        found["parameters"] = parameters
    return found


def run_time_s(metrics: Metrics) -> float | None:
    """Seconds between first and last row of each segment, summed: pauses between restarts do not count."""
    spans: dict[Any, tuple[float, float]] = {}
    for row in metrics.rows:
        time = row.get("time")
        if isinstance(time, int | float):
            low, high = spans.get(row.get("segment"), (time, time))
            spans[row.get("segment")] = (min(low, time), max(high, time))
    return round(sum(high - low for low, high in spans.values()), 1) if spans else None


def _training(metrics: Metrics) -> dict[str, Any]:
    names = (
        "train/loss",
        "train_eval/loss",
        "train_eval/bpb",
        "train/lr",
        "train/grad_norm",
        "train/tokens_per_s",
    )
    found = {name: metrics.last(name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _validation(run: Run, metrics: Metrics) -> dict[str, Any]:
    """How validation was measured, and the last figure of every slice."""
    validation = _mapping(_mapping(_mapping(run.manifest.get("recipe")).get("train")).get("validation"))
    evaluation = _last_evaluation(run)
    figures = {name: metrics.last(name) for name in metrics.names() if name.startswith("val/")}
    found: dict[str, Any] = {
        "step": max((int(row["step"]) for row in metrics.rows if "val/all/loss" in row), default=None),
        "procedure": dict(validation) or None,
        **figures,
    }
    if evaluation:
        found["final_protocol"] = evaluation.get("protocol")
        found["final"] = {
            name: {key: entry.get(key) for key in ("bpb", "loss", "low", "high") if key in entry}
            for name, entry in {
                **_mapping(evaluation.get("slices")),
                "all": _mapping(evaluation.get("all")),
            }.items()
        }
        found["baselines"] = evaluation.get("baselines")
    return found


def _last_evaluation(run: Run) -> dict[str, Any]:
    import orjson

    for path in sorted(run.evaluations.glob("step-*.json"), reverse=True):
        try:
            return _mapping(orjson.loads(path.read_bytes()))
        except (OSError, orjson.JSONDecodeError):
            continue
    return {}


def _findings(run: Run) -> dict[str, Any]:
    """Findings by id with the grade; waivers with their reasons."""
    found: dict[str, Any] = {}
    for finding in run.findings():
        name = str(finding.get("id", "?"))
        reason = _mapping(finding.get("waiver")).get("because")
        text = str(finding.get("grade", "")) + (
            f" · {finding['location']}" if finding.get("location") else ""
        )
        found[name] = f"{text} · {t('record.sheet.waived', because=reason)}" if reason else text
    for waiver in run.manifest.get("waivers", []) or []:
        waived = _mapping(waiver)
        found[str(waived.get("id"))] = t("record.sheet.waived", because=waived.get("because"))
    return found


def _samples(run: Run) -> dict[str, Any]:
    """The fixed-prompt samples of the last step that has some."""
    rows = run.samples()
    if not rows:
        return {}
    last = max(int(row.get("step", 0)) for row in rows)
    found: dict[str, Any] = {"step": last}
    for row in [row for row in rows if int(row.get("step", 0)) == last][:SHOWN_SAMPLES]:
        text = str(row.get("text", row.get("output", row.get("completion", ""))))
        found[str(row.get("prompt", "?"))] = " ".join(text.split())[:200]
    return found


def _ratings(run: Run) -> dict[str, Any]:
    folder = run.folder / "ratings"
    files = sorted(folder.rglob("*.jsonl")) if folder.is_dir() else []
    return {path.relative_to(folder).as_posix(): len(read_jsonl(path)) for path in files}


def _machine(manifest: dict[str, Any]) -> dict[str, Any]:
    return {**_mapping(manifest.get("hardware")), **_mapping(manifest.get("machine"))}


def _versions(manifest: dict[str, Any]) -> dict[str, Any]:
    environment = _mapping(manifest.get("environment"))
    return {
        **_mapping(manifest.get("code")),
        "python": environment.get("python"),
        **_mapping(environment.get("libraries")),
    }


def _mapping(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {}


def _flat(facts: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in facts.items():
        if isinstance(value, dict):
            found += _flat(value, f"{prefix}{name}.")
        else:
            found.append((f"{prefix}{name}", _text(value)))
    return found


def _text(value: Any) -> str:
    value = unspell(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return t("record.sheet.yes" if value else "record.sheet.no")
    if isinstance(value, float):
        return numerals(f"{value:.5g}")
    if isinstance(value, list | tuple):
        return ", ".join(_text(item) for item in value)
    return str(value)


def _worded(section: str, name: str, value: str) -> str:
    """States and grades in words; the record itself keeps their codes."""
    if section == "identity" and name in ("state", "outcome"):
        return in_words("state", value)
    if section == "findings":
        grade, dot, rest = value.partition(" · ")
        return in_words("grade", grade) + dot + rest
    return value


def in_words(kind: str, code: str) -> str:
    """A code of the record (`state`, `grade`, `kind`) in words; the code itself where it has none."""
    key = f"record.{kind}.{code}"
    word = t(key)
    return code if word == key else word


def _label(section: str, name: str) -> str:
    """The name in words where there are words for it; recipe keys, metric names and libraries stay as they are."""
    key = f"record.sheet.{section}.{name}"
    label = t(key)
    return name if label == key else label


def _cell(value: str) -> str:
    return value.replace("|", "\\|").replace("\n", " ")
