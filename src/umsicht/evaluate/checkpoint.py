"""Evaluating a checkpoint from its run's record: the weights, the tokenizer and the held-out text belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from umsicht.evaluate import baselines as baselines_module
from umsicht.evaluate import context, copied, facts, heldout, labels, task_rows, tasks
from umsicht.evaluate.evaluation import Evaluation, evaluate_model
from umsicht.evaluate.promptset import for_corpus
from umsicht.evaluate.reading import reminder
from umsicht.evaluate.samples import changed_protocol, draw, looping, summary
from umsicht.evaluate.stage import KIND, Inputs, build
from umsicht.findings import Finding, UserError
from umsicht.model import Transformer, load_weights
from umsicht.recipe.evaluate import EvaluateSettings
from umsicht.record.artifact import Artifact, Store
from umsicht.record.manifest import read_manifest, verify
from umsicht.record.progress import QUIET, Progress
from umsicht.record.run import Run
from umsicht.score import of_transformer
from umsicht.tokenizer import Tokenizer
from umsicht.tokens import TokenData
from umsicht.train import checkpoints
from umsicht.words import t

BEST_BY = "val/all/bpb"


def find(run: Run, wanted: str = "best") -> Path:
    """A run's checkpoint: `best` (by its manifest's `best_by`, else validation bits per byte), `latest`, a step, or a folder.

    Raises UserError, naming those that exist.
    """
    found: Path | None = None
    if wanted == "best":
        metric, direction = run.manifest.get("best_by") or (BEST_BY, "down")
        found = checkpoints.best(run, metric, "up" if direction == "up" else "down") or checkpoints.latest(
            run
        )
    elif wanted == "latest":
        found = checkpoints.latest(run)
    elif wanted.isdigit():
        found = next((c.path for c in checkpoints.listed(run) if c.step == int(wanted)), None)
    elif (Path(wanted) / checkpoints.MODEL).is_file():
        found = Path(wanted)
    if found is None:
        listed = checkpoints.listed(run)
        damaged = [str(c.step) for c in listed if verify(c.path)]
        whole = ", ".join(str(c.step) for c in listed if str(c.step) not in damaged) or "—"
        raise UserError(
            t("evaluate.no_checkpoint", run=run.name, wanted=wanted),
            where=str(run.checkpoints),
            why=t("evaluate.no_checkpoint.damaged", steps=", ".join(damaged)) if damaged else "",
            fix=t("evaluate.no_checkpoint.fix", known=whole),
        )
    return found


def store_of(run: Run) -> Store:
    """The artifacts of the project that the run lies in."""
    return Store(run.folder.parent.parent / "artifacts")


def input_of(run: Run, kind: str) -> Artifact:
    """The artifact of this kind that the run rests on. Raises UserError where it is gone."""
    identity = str(run.manifest.get("inputs", {}).get(kind, ""))
    artifact = store_of(run).by_id(identity) if identity else None
    if artifact is None:
        raise UserError(
            t("evaluate.input_missing", kind=kind),
            where=str(run.folder),
            why=t("evaluate.input_missing.why", id=identity[:12] or "—"),
            fix=t("evaluate.input_missing.fix"),
        )
    return artifact


def tokenizer_of(run: Run) -> Tokenizer:
    """The tokenizer that the run was trained with, to the byte. Raises UserError where it is gone or was changed since."""
    artifact = input_of(run, "tokenizer")
    file = artifact.path / "tokenizer.json"
    changed = {damage.path for damage in verify(artifact.path) if damage.problem in ("size", "digest")}
    if file.name in changed:
        raise UserError(
            t("evaluate.tokenizer_changed"),
            where=str(file),
            why=t("evaluate.tokenizer_changed.why"),
            fix=t("evaluate.tokenizer_changed.fix"),
        )
    return Tokenizer.load(artifact.path)


def settings_of(run: Run) -> EvaluateSettings:
    """The `evaluate` section of the recipe that the run was made with."""
    return EvaluateSettings.model_validate(run.manifest.get("recipe", {}).get("evaluate", {}))


@dataclass(frozen=True)
class Options:
    """How to evaluate, besides what the recipe says."""

    checkpoint: str = "best"
    device: str = "cpu"
    with_samples: bool = True
    tasks: tuple[Path, ...] = ()
    """Local multiple-choice files to ask, see `tasks.load`."""
    harness: Mapping[str, Path] = field(default_factory=dict)
    """Tasks of lm-evaluation-harness, {name: local rows}, see `harness_tasks.write`."""
    limit: int | None = None
    """Rows asked of each task; a limited result is marked partial."""
    deep: bool = False
    """Also measure the use of context and the recall of rare facts (a minute or more on a CPU)."""


def evaluate_checkpoint(run: Run, options: Options = Options(), *, progress: Progress = QUIET) -> Evaluation:
    """Score a checkpoint, draw its samples, and write both into the run's record together with the findings.

    The baselines are made where they do not exist yet. Raises UserError where the checkpoint or an input is missing.
    """
    path = find(run, options.checkpoint)
    settings = settings_of(run)
    tokenizer_artifact = input_of(run, "tokenizer")
    tokenizer = tokenizer_of(run)
    baselines = _baselines(run, settings, tokenizer_artifact, progress)
    manifest = read_manifest(path) or {}
    model = load_weights(path, device=options.device)
    model.eval()
    step, tokens = int(manifest.get("step", 0)), int(manifest.get("tokens", 0))
    samples: dict[str, float] = {}
    findings: list[Finding] = []
    if options.with_samples:
        progress.stage(t("evaluate.stage.samples"))
        prompts = for_corpus(settings.samples, input_of(run, "corpus").report.get("slices", {}))
        rows = list(draw(model, tokenizer, prompts, settings.samples, step=step, tokens=tokens))
        samples, findings = _judge_samples(run, tokenizer, rows, step)
        progress.close()
    progress.stage(t("evaluate.stage.score"))
    result = evaluate_model(
        model,
        tokenizer,
        baselines,
        window=settings.window or model.config.seq_len,
        stride=settings.stride,
        step=step,
        tokens=tokens,
        checkpoint={"name": path.name, "digest": _weights_digest(manifest)},
        device=torch.device(options.device),
        samples=samples,
    )
    progress.close()
    more: dict[str, Any] = {}
    if options.deep:
        more, deeper = _look_deeper(run, model, tokenizer, baselines, options.device, progress)
        findings += deeper
    if options.tasks:
        more["tasks"], judged = _ask_tasks(model, tokenizer, options, progress)
        findings += judged
    if options.harness:
        more["harness"] = _ask_harness(model, tokenizer, options, progress)
    result = replace(result.with_findings([*findings, *reminder(run, settings.remind_after)]), more=more)
    result.save(run)
    for finding in result.findings:
        run.add_finding({**finding.to_dict(), "step": step})
    return result


def _judge_samples(
    run: Run, tokenizer: Tokenizer, rows: list[dict[str, Any]], step: int
) -> tuple[dict[str, float], list[Finding]]:
    """Label the outputs, look for copies of training text, record them; (figures, findings)."""
    before = run.samples()
    rows = labels.add(rows)
    findings = [*changed_protocol(before, rows), *looping(rows, step), *labels.judge(before, rows, step)]
    figures = {**summary(rows), **labels.summary(rows)}
    identity = str(run.manifest.get("inputs", {}).get("tokens", ""))
    found = store_of(run).by_id(identity) if identity else None
    if found is not None:
        train = TokenData.open(found.path).train
        texts = [str(row["text"]) for row in rows]
        stream = (train.document(i) for i in range(train.n_documents))
        shares = copied.measure([tokenizer.encode(text) for text in texts], stream)
        rows = [
            {**row, "copied": c.share, "copied_longest": c.longest}
            for row, c in zip(rows, shares, strict=True)
        ]
        figures["samples/copied"] = sum(c.share for c in shares) / max(1, len(shares))
        findings += copied.judge(shares, texts, step)
    run.add_samples(_unseen(run, rows))
    return figures, findings


def _ask_tasks(
    model: Transformer, tokenizer: Tokenizer, options: Options, progress: Progress
) -> tuple[list[dict[str, Any]], list[Finding]]:
    ask, found, judged = of_transformer(model), [], list[Finding]()
    for path in options.tasks:
        name = path.name.removesuffix(".gz").removesuffix(".jsonl")
        progress.stage(name)
        rows = tasks.load(path)
        result = tasks.evaluate(
            ask,
            tokenizer,
            name,
            rows,
            limit=options.limit,
            window=model.config.seq_len,
            device=options.device,
        )
        progress.close()
        found.append(result.to_dict())
        judged += task_rows.judge(result, rows, tokenizer, model.config.seq_len)
    return found, judged


def _ask_harness(
    model: Transformer, tokenizer: Tokenizer, options: Options, progress: Progress
) -> list[dict[str, Any]]:
    from umsicht.evaluate import harness  # the extra `eval`

    progress.stage(", ".join(options.harness))
    found = harness.evaluate(model, tokenizer, options.harness, limit=options.limit, device=options.device)
    progress.close()
    return [result.to_dict() for result in found]


def _look_deeper(
    run: Run, model: Transformer, tokenizer: Tokenizer, baselines: Artifact, device: str, progress: Progress
) -> tuple[dict[str, Any], list[Finding]]:
    from umsicht.corpus import documents  # the extra `corpus`: sampling and export must not need it

    more: dict[str, Any] = {}
    ask = of_transformer(model)
    progress.stage(t("evaluate.stage.context"))
    ids = baselines_module.encode_excerpts(heldout.load(baselines.path), tokenizer)
    report = context.measure(
        ask, tokenizer, ids, claimed=model.config.seq_len, segments=32, trials=8, device=device
    )
    progress.close()
    if report is not None:
        more["context"] = report.to_dict()
    progress.stage(t("evaluate.stage.facts"))
    texts = (document.text for document in documents(input_of(run, "corpus"), "train"))
    buckets = facts.ask(ask, tokenizer, facts.mine(texts), device=device)
    progress.close()
    more["facts"] = facts.to_dicts(buckets)
    return more, list(report.findings) if report is not None else []


def _unseen(run: Run, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Outputs that the record does not hold yet: evaluating twice must not double them."""
    known = {row.get("id") for row in run.samples()}
    return [row for row in rows if row["id"] not in known]


def _weights_digest(manifest: dict[str, object]) -> str:
    files = manifest.get("files")
    entry = files.get(checkpoints.MODEL, {}) if isinstance(files, dict) else {}
    return str(entry.get("sha256", ""))


def _baselines(run: Run, settings: EvaluateSettings, tokenizer: Artifact, progress: Progress) -> Artifact:
    identity = run.manifest.get("inputs", {}).get(KIND)
    found = store_of(run).by_id(str(identity)) if identity else None
    if found is not None:
        return found
    inputs = Inputs(store_of(run), input_of(run, "corpus"), tokenizer)
    return build(settings.baselines, inputs, progress=progress)
