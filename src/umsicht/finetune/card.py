"""The model card, written from the record: what went in, how it was scored, what is known to be wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from umsicht.evaluate.checkpoint import input_of
from umsicht.evaluate.evaluation import Evaluation
from umsicht.findings import Finding, UserError, render
from umsicht.words import numerals, t

from .base import evaluation_of
from .subject import Subject


def model_card(subject: Subject) -> str:
    """Markdown with the front matter that model hubs read. What the record does not hold is said to be missing."""
    config, run = subject.model.config, subject.run
    sources = _sources(subject)
    licences = sorted({str(s.get("licence") or "?") for s in sources.values()})
    languages = sorted({name.rpartition(".")[2] for name in _slices(subject)} - {"code", "other"})
    lines = ["---", "library_name: transformers", "pipeline_tag: text-generation"]
    if languages:
        lines += ["language:", *(f"- {code}" for code in languages if code.isalpha() and len(code) <= 3)]
    lines += ["tags:", "- umsicht", "---", "", f"# {run.name}", ""]
    lines += [
        t(
            "finetune.card.intro",
            family=config.family,
            parameters=numerals(f"{subject.model.n_parameters():,}"),
        ),
        "",
    ]
    lines += [t("finetune.card.chat" if subject.is_chat else "finetune.card.base"), ""]
    lines += [f"## {t('finetune.card.data')}", "", *_data(sources, licences), ""]
    lines += [f"## {t('finetune.card.training')}", "", *_training(subject), ""]
    lines += [f"## {t('finetune.card.evaluation')}", "", *_evaluation(subject), ""]
    lines += [f"## {t('finetune.card.findings')}", "", *_findings(run.findings(), run.manifest), ""]
    lines += [f"## {t('finetune.card.limits')}", "", *_limits(subject), ""]
    return "\n".join(lines)


def _report(subject: Subject) -> dict[str, Any]:
    try:
        return input_of(subject.run, "corpus").report
    except (UserError, OSError):
        return {}


def _sources(subject: Subject) -> dict[str, dict[str, Any]]:
    sources: dict[str, dict[str, Any]] = _report(subject).get("sources", {})
    return sources


def _slices(subject: Subject) -> list[str]:
    return list(_report(subject).get("slices", {}))


def _data(sources: dict[str, dict[str, Any]], licences: list[str]) -> Iterator[str]:
    if not sources:
        yield t("finetune.card.no_data")
        return
    yield t("finetune.card.licences", licences=", ".join(licences))
    yield ""
    yield f"| {t('finetune.card.source')} | {t('finetune.card.domain')} | {t('finetune.card.licence')} | MB |"
    yield "|---|---|---|---:|"
    for name, source in sources.items():
        stages = source.get("stages") or [{}]
        size = float(stages[-1].get("bytes", 0)) / 1e6
        yield f"| {name} | {source.get('domain', '?')} | {source.get('licence') or '?'} | {size:.1f} |"


def _training(subject: Subject) -> Iterator[str]:
    config, manifest = subject.model.config, subject.run.manifest
    facts = {
        "d_model": config.d_model,
        "n_layers": config.n_layers,
        "n_heads / n_kv_heads / head_dim": f"{config.n_heads} / {config.n_kv_heads} / {config.head_dim}",
        "seq_len": config.seq_len,
        "vocab_size": f"{config.vocab_size} ({config.n_tokens})",
        "step": subject.step,
        "tokens": manifest.get("planned_tokens"),
        "method": manifest.get("method", "pretraining"),
        "weights sha256": subject.digest[:16],
    }
    for name, value in facts.items():
        yield f"- {name}: {value}"


def _evaluation(subject: Subject) -> Iterator[str]:
    found: Evaluation | None = evaluation_of(subject.run, subject.digest)
    if found is None:
        yield t("finetune.card.not_evaluated")
        return
    yield t("finetune.card.protocol", window=found.protocol.window, digest=found.protocol.digest[:12])
    yield ""
    yield f"| {t('finetune.card.slice')} | bits per byte | 5-gram | xz -9 |"
    yield "|---|---:|---:|---:|"
    for name, score in found.slices.items():
        beside = found.baselines.get(name, {})
        others = [f"{beside[key]:.3f}" if key in beside else "—" for key in ("ngram5", "xz")]
        yield f"| {name} | {score.bpb:.3f} | {others[0]} | {others[1]} |"
    yield f"| {t('finetune.card.all')} | {found.total.bpb:.3f} | | |"


def _findings(findings: list[dict[str, Any]], manifest: dict[str, Any]) -> Iterator[str]:
    seen: set[str] = set()
    for plain in findings:
        finding = Finding.from_dict(plain)
        if finding.id not in seen and finding.grade != "note":
            seen.add(finding.id)
            yield f"- **{finding.id}** ({finding.grade}): {render(finding).seen}"
    for waiver in manifest.get("waivers", ()):
        yield f"- {t('finetune.card.waived', id=waiver.get('id'), because=waiver.get('because'))}"
    if not seen and not manifest.get("waivers"):
        yield t("finetune.card.no_findings")


def _limits(subject: Subject) -> Iterator[str]:
    yield f"- {t('finetune.card.limit_context', seq_len=subject.model.config.seq_len)}"
    yield f"- {t('finetune.card.limit_facts')}"
    if not subject.is_chat:
        yield f"- {t('finetune.card.limit_base')}"
