"""One stage of fine-tuning from gate to forgetting table, as a run of its own beside the base's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from umsicht.evaluate.checkpoint import Options, evaluate_checkpoint, find
from umsicht.evaluate.evaluation import Evaluation
from umsicht.findings import Finding, UserError, Waiver, decide, render
from umsicht.findings.exits import GUARD
from umsicht.model import LoraConfig, ModelConfig, Transformer, build
from umsicht.model.adapter_file import save_adapter
from umsicht.model.lora import freeze_base, initialise_adapters, with_adapters
from umsicht.model.weights import fill
from umsicht.recipe.finetune import StageSettings
from umsicht.recipe.train import (
    BudgetSettings,
    CheckpointSettings,
    EarlyStoppingSettings,
    OptimizerSettings,
    ScheduleSettings,
    TrainSettings,
)
from umsicht.record import QUIET, Progress, Run, content_id, short
from umsicht.record.ids import file_digest
from umsicht.train import Outcome, Trainer
from umsicht.words import t

from . import checks, tone
from .base import check_base, evaluation_of
from .exporting import probe_ids
from .material import Material, judge_of, material_of
from .methods import METRIC, Prepared, rate_of, steps_of
from .rows import Conversation
from .subject import Subject, merged, open_subject

STAGE_VERSION = 2
TEMPLATE_ROWS = 200


@dataclass(frozen=True)
class StageResult:
    """What a stage left behind."""

    run: Run
    base: Run
    outcome: Outcome
    table: dict[str, Any]
    before: Evaluation | None = None
    after: Evaluation | None = None
    findings: list[Finding] = field(default_factory=list)

    @property
    def next_base(self) -> Run:
        """What a further stage starts from: this stage's model, except behind a judge, which answers nothing."""
        return self.base if self.run.manifest.get("method") == "reward" else self.run

    def forgetting(self) -> list[tuple[str, float, float]]:
        """(slice, bits per byte before, after) of every slice of the base's text."""
        if self.before is None or self.after is None:
            return []
        return [
            (name, score.bpb, self.after.slices[name].bpb)
            for name, score in self.before.slices.items()
            if name in self.after.slices
        ]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "run": self.run.name,
            "reason": self.outcome.reason,
            "step": self.outcome.step,
            "targets": self.table,
            "forgetting": [list(row) for row in self.forgetting()],
            "findings": [finding.to_dict() for finding in self.findings],
        }


def run_stage(
    settings: StageSettings,
    base: Run,
    *,
    checkpoint: str = "best",
    root: Path = Path(),
    waivers: Sequence[Waiver] = (),
    forgetting_limit: float = 0.1,
    progress: Progress = QUIET,
) -> StageResult:
    """Fine-tune `base` as `settings` say; the same stage on the same base and files is never trained twice.

    Data paths are relative to `root`. Raises `UserError` (exit code 3) where the gate stays shut: base not evaluated or
    poor, too many bad rows. Rows that stand in a set protected by the base's recipe are left out. A waiver with a reason opens it and stays in the run's record.
    """
    subject = open_subject(base, checkpoint)
    _pass(base, check_base(base, subject.digest), waivers)
    judge = judge_of(settings, base, subject)
    material = material_of(settings, subject, root, None if judge is None else merged(judge.model))
    _pass(base, material.broken, ())
    _pass(base, material.findings, waivers)
    found, prepared = list(material.findings), material.prepared
    for name, value in prepared.lines:
        progress.note(f"{name}: {value}")
    run = _open_run(settings, subject, material, waivers, judge)
    outcome = _train(settings, subject, prepared, run, progress)
    if outcome.reason not in ("finished", "early-stopped"):
        return StageResult(run, base, outcome, prepared.table, findings=found)
    if settings.lora is not None:
        save_adapter(open_subject(run).model, run.folder / "adapter", base=base.name)
    found = [*found, *no_gain(settings, run)]
    if settings.method == "reward":
        _record(run, found)
        return StageResult(run, base, outcome, prepared.table, findings=found)
    known = evaluation_of(run, file_digest(find(run) / "model.safetensors"))
    after = known or evaluate_checkpoint(run, Options("best"), progress=progress)
    before = evaluation_of(base, subject.digest)
    result = StageResult(run, base, outcome, prepared.table, before, after, found)
    found += _forgotten(result, forgetting_limit)
    if known is None:
        answered = [row for row in (*material.held_out, *material.training) if isinstance(row, Conversation)]
        found += tone.of_stage(run, base, answered)
    _record(run, found)
    return StageResult(run, base, outcome, prepared.table, before, after, found)


def _pass(run: Run, findings: Sequence[Finding], waivers: Sequence[Waiver]) -> None:
    decision = decide("finetune", findings, waivers)
    if decision.open:
        return
    _record(run, decision.stopping)
    first = decision.stopping[0]
    shown = render(first)
    reasons = "; ".join(first.examples)
    raise UserError(
        f"{shown.title}. {shown.seen}",
        where=reasons or first.location,
        why=" ".join([shown.why, *shown.causes[:1]]),
        fix=shown.next,
        exit_code=GUARD,
    )


def _record(run: Run, findings: Sequence[Finding]) -> None:
    known = {(f.get("id"), str(f.get("numbers"))) for f in run.findings()}
    for finding in findings:
        plain = finding.to_dict()
        if (plain["id"], str(plain["numbers"])) not in known:
            run.add_finding(plain)


def _open_run(
    settings: StageSettings,
    subject: Subject,
    material: Material,
    waivers: Sequence[Waiver],
    judge: Subject | None,
) -> Run:
    base, digests = subject.run, material.rows.digests
    plain = settings.plain()
    identity = content_id(
        {
            "stage_version": STAGE_VERSION,
            "settings": {name: value for name, value in plain.items() if name not in ("name", "data")},
            "base": subject.digest,
            "files": sorted(digests.values()),
            **({"judge": judge.digest} if judge else {}),
        }
    )
    root = str(base.manifest.get("project_name") or base.manifest.get("name") or base.name)
    folder = base.folder.parent / f"{root}-{settings.title}-{short(identity)}"
    if (folder / "manifest.json").is_file():
        return Run.open(folder)
    metric, direction = METRIC[settings.method]
    kept = ("tokenizer", "corpus", "tokens", "baselines")
    inputs = {name: value for name, value in base.manifest.get("inputs", {}).items() if name in kept}
    return Run.create(
        folder,
        {
            "id": identity,
            "name": f"{root}-{settings.title}",
            "project_name": root,
            "method": settings.method,
            "chat": settings.method != "reward",
            "stage": plain,
            "parent": base.name,
            "recipe": base.manifest.get("recipe", {}),
            "inputs": {
                **inputs,
                "base:weights": subject.digest,
                **({"judge:weights": judge.digest} if judge else {}),
                **{f"file:{name}": digest for name, digest in digests.items()},
            },
            "seed": settings.seed,
            "model": {
                **stage_config(settings, subject).to_dict(),
                "n_parameters": subject.model.n_parameters(),
            },
            "targets": material.prepared.table,
            "best_by": [metric, direction],
            "waivers": [waiver.to_dict() for waiver in waivers],
        },
    )


def stage_config(settings: StageSettings, subject: Subject) -> ModelConfig:
    plain = ModelConfig.from_dict({**subject.model.config.to_dict(), "lora": None})
    if settings.lora is None:
        return plain
    lora = settings.lora
    if lora.r > plain.d_model:
        raise UserError(
            t("finetune.lora_rank", r=lora.r, width=plain.d_model),
            why=t("finetune.lora_rank.why"),
            fix=t("finetune.lora_rank.fix", width=plain.d_model),
        )
    wanted = LoraConfig(lora.r, lora.alpha, lora.dropout, lora.rank_stabilised, tuple(lora.targets))
    try:
        return with_adapters(plain, wanted)
    except ValueError as error:
        raise UserError(
            t("finetune.lora_targets", reason=error), fix=t("finetune.lora_targets_fix")
        ) from error


def policy(settings: StageSettings, subject: Subject) -> Transformer:
    """The model that will learn: the base's weights (earlier adapters merged), fresh adapters where the stage wants them."""
    base = merged(subject.model)
    config = stage_config(settings, subject)
    if config.lora is None:
        return base
    model = build(config, settings.seed)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    fill(model, {**weights, **base.state_dict()})
    initialise_adapters(model, settings.seed)
    freeze_base(model)
    return model


def _train(
    settings: StageSettings, subject: Subject, prepared: Prepared, run: Run, progress: Progress
) -> Outcome:
    model = policy(settings, subject)
    _pass(run, _algebra(model, subject), ())
    objective, hooks = prepared.attach(model)
    trainer = Trainer(
        model,
        prepared.source,
        train_settings(settings, steps_of(settings, prepared.source), prepared.source.tokens_per_batch),
        run,
        hooks=hooks,
        objective=objective,
        seed=settings.seed,
        progress=progress,
    )
    return trainer.fit()


def _algebra(model: Transformer, subject: Subject) -> list[Finding]:
    """Adapters must start as the base, act, and merge exactly: checked on a line of text before they are trained."""
    if model.config.lora is None:
        return []
    return checks.adapter_algebra(model, merged(subject.model), probe_ids(subject.tokenizer, 64))


def train_settings(settings: StageSettings, steps: int, tokens: int) -> TrainSettings:
    """The stage in the words of the trainer: AdamW at one rate, warm-up, then down to zero."""
    rate = rate_of(settings)
    metric, direction = METRIC[settings.method]
    stopping = None
    if settings.patience is not None:
        stopping = EarlyStoppingSettings(metric=metric, direction=direction, patience=settings.patience)
    return TrainSettings(
        budget=BudgetSettings(steps=steps),
        global_batch_tokens=tokens,
        optimizer=OptimizerSettings(
            kind="adamw",
            matrix_rate=rate,
            embedding_rate=rate,
            head_rate=rate,
            vector_rate=rate,
            weight_decay=settings.weight_decay,
            beta1=0.9,
            beta2=0.99,
            epsilon=1e-8,
        ),
        schedule=ScheduleSettings(shape="linear", warmup_share=settings.warmup_share),
        early_stopping=stopping,
        checkpoint=CheckpointSettings(keep_last=1, keep_best={metric: direction}),
        precision="auto" if settings.method == "sft" else "float32",
    )


def no_gain(settings: StageSettings, run: Run) -> list[Finding]:
    """FINETUNE/no-gain where the held-out figure that the stage is about was never better than before its first step."""
    metric, direction = METRIC[settings.method]
    values = [
        (int(row["step"]), float(row[metric]))
        for row in run.metrics().rows
        if isinstance(row.get(metric), int | float)
    ]
    before = [value for step, value in values if step == 0]
    later = [value for step, value in values if step > 0]
    if not before or not later:
        return []
    best = min(later) if direction == "down" else max(later)
    if best < before[0] if direction == "down" else best > before[0]:
        return []
    numbers = {
        "metric": metric,
        "before": round(before[0], 4),
        "best": round(best, 4),
        "rate": rate_of(settings),
    }
    return [Finding("FINETUNE/no-gain", "warn", "finetune", metric, numbers)]


def _forgotten(result: StageResult, limit: float) -> list[Finding]:
    worse = [(name, b, a) for name, b, a in result.forgetting() if a > b * (1 + limit)]
    if not worse:
        return []
    name, before, after = max(worse, key=lambda row: row[2] / row[1])
    numbers = {
        "slices": len(worse),
        "of": len(result.forgetting()),
        "slice": name,
        "before": round(before, 3),
        "after": round(after, 3),
        "percent": round(100 * (after / before - 1)),
    }
    return [Finding("FINETUNE/forgotten", "warn", "finetune", name, numbers)]
