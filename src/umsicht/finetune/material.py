"""The rows of a stage as it will train on them, and what is found in them before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umsicht.findings import Finding, UserError
from umsicht.model import Transformer
from umsicht.recipe.finetune import StageSettings
from umsicht.record import Run
from umsicht.record.project import Project
from umsicht.words import t

from . import checks, choices, contents, earnable
from .contamination import finding as contaminated
from .contamination import protected_rows
from .loading import Refused, Rows, load, split
from .methods import KIND, Prepared, nothing_prepared, prepare
from .reward import REWARDS
from .rows import Conversation, Preference, Problem, Row
from .subject import Subject, open_subject

TEMPLATE_ROWS = 200


@dataclass(frozen=True)
class Material:
    """What a stage trains on."""

    rows: Rows
    """All rows of its files; those of protected sets are left out already."""
    training: list[Row]
    held_out: list[Row]
    prepared: Prepared
    findings: list[Finding]
    broken: list[Finding]
    """Findings that no waiver passes: a stage would not train on what its rows say."""


def material_of(
    settings: StageSettings, subject: Subject, root: Path, judge: Transformer | None = None
) -> Material:
    """Read, check and render. Data paths are relative to `root`; `judge` is the model that judges answers where the stage names one.

    Raises `UserError` for a file that is missing, empty or unreadable.
    """
    rows = load([root / path for path in settings.data], settings.format, KIND[settings.method])
    leaked = protected_rows(rows.rows, subject.run.manifest.get("recipe", {}), root)
    total = len(rows.rows)
    rows.leave_out(leaked)
    too_few = rows.findings(0.0) if len(rows.rows) < 2 else []
    if too_few:
        # Too few for anything: say first what is wrong with the others.
        return Material(rows, [], [], nothing_prepared([]), [], too_few)
    training, held_out = split(rows.rows, settings.validation_share, settings.seed)
    seq_len = subject.model.config.seq_len
    prepared = prepare(settings, training, held_out, subject.tokenizer, seq_len, judge)
    conversations = [row.messages for row in training if isinstance(row, Conversation)]
    found = [*_data_findings(settings, rows, prepared.refused), *contaminated(leaked, total)]
    found += _said_in(settings, rows.rows, prepared.table, subject)
    broken = checks.template(conversations[:TEMPLATE_ROWS], subject.tokenizer)
    return Material(rows, training, held_out, prepared, found, broken)


def judge_of(settings: StageSettings, base: Run, subject: Subject) -> Subject | None:
    """The reward model that the stage names: the newest run beside the base with this name or of a stage of this name.

    Raises `UserError` where there is none, and where it reads other tokens than the base.
    """
    if settings.method != "grpo" or settings.reward_model is None:
        return None
    wanted = settings.reward_model
    root = str(base.manifest.get("project_name") or base.manifest.get("name") or base.name)
    beside = [
        run
        for run in Project(base.folder.parent.parent).runs()
        if run.manifest.get("method") == "reward"
        and wanted in (run.name, run.folder.name, run.manifest.get("name"), _title_of(run, root))
    ]
    if not beside:
        raise UserError(t("finetune.no_judge", name=wanted), fix=t("finetune.no_judge_fix"))
    judge = open_subject(beside[0])
    if judge.tokenizer.digest != subject.tokenizer.digest:
        raise UserError(t("finetune.judge_tokenizer", name=wanted), fix=t("finetune.no_judge_fix"))
    return judge


def _title_of(run: Run, root: str) -> str:
    return str(run.manifest.get("name", "")).removeprefix(f"{root}-")


def _data_findings(settings: StageSettings, rows: Rows, more: Sequence[Refused]) -> list[Finding]:
    """One finding for all rows that cannot be used, whether unreadable or without a target."""
    refused = {entry.location for entry in more}
    kept = [row for row in rows.rows if row.id not in refused]
    everything = Rows(kept, [*rows.refused, *more], rows.digests)
    return everything.findings(settings.max_dropped_share if kept else 0.0)


def _said_in(
    settings: StageSettings, rows: Sequence[Row], table: dict[str, Any], subject: Subject
) -> list[Finding]:
    """Findings about what rows in good form say: texts, choices, rewards, and answers that the context cuts."""
    found = contents.read(rows)
    found += contents.cut_by_context(table, subject.model.config.seq_len)
    found += choices.compare([row for row in rows if isinstance(row, Preference)])
    if settings.method == "grpo" and settings.reward != "model":
        problems = [row for row in rows if isinstance(row, Problem) and row.answer]
        reward = REWARDS[settings.reward]
        found += earnable.earnable(
            problems, settings.reward, reward, subject.tokenizer, settings.max_new_tokens
        )
    return found
