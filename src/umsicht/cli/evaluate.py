"""`umsicht evaluate`: score a checkpoint on held-out text, beside xz and a counted n-gram model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from umsicht.cli.output import TerminalProgress, print_finding, print_json, print_table
from umsicht.cli.projects import find_run
from umsicht.findings import UserError
from umsicht.record.progress import QUIET
from umsicht.words import numerals, t

if TYPE_CHECKING:
    from umsicht.evaluate.against import Comparison
    from umsicht.evaluate.evaluation import Evaluation


def evaluate(
    run: str,
    *,
    checkpoint: str = "best",
    device: str = "cpu",
    samples: bool = True,
    deep: bool = False,
    task: list[Path] | None = None,
    harness: list[str] | None = None,
    limit: int | None = None,
    against: str | None = None,
    json: bool = False,
    dry_run: bool = False,
) -> int:
    """Score a checkpoint on held-out text and draw its samples. Exit code 1 where a finding of grade stop is raised.

    Parameters
    ----------
    run
        A run's folder or name, or a project's folder (its newest run).
    checkpoint
        `best`, `latest`, a step, or a checkpoint's folder.
    device
        Where to compute: cpu, cuda, mps.
    samples
        Draw the recipe's fixed prompts too.
    deep
        Also measure how much context is used and which rare facts are known (a minute or more).
    task
        A local multiple-choice file (JSONL, also .gz); may be given several times.
    harness
        A task of lm-evaluation-harness on local rows, for example arc_easy=arc_easy.jsonl; may be given several times.
    limit
        Rows asked of each task; a limited result is marked partial.
    against
        Compare with the recorded evaluation of another checkpoint, on the same rows: RUN or RUN@STEP.
    json
        Print JSON.
    dry_run
        Only say which checkpoint would be evaluated.
    """
    from umsicht.evaluate.against import compare
    from umsicht.evaluate.checkpoint import Options, evaluate_checkpoint, find

    record = find_run(run)
    if dry_run:
        print(t("evaluate.would_write", path=record.evaluations / f"{find(record, checkpoint).name}-….json"))
        return 0
    other = _recorded(against) if against else None
    progress = QUIET if json else TerminalProgress()
    result = evaluate_checkpoint(
        record,
        Options(checkpoint, device, samples, tuple(task or ()), _pairs(harness or []), limit, deep),
        progress=progress,
    )
    compared = compare(result, other) if other is not None else None
    order = result.method.get("ngram_order", 5)
    if json:
        print_json({**result.to_dict(), **({"against": compared.to_dict()} if compared else {})})
        return int(any(f.grade == "stop" for f in result.findings))
    columns = [
        t(f"evaluate.table.{name}", order=order) for name in ("slice", "bpb", "interval", "xz", "xz_context")
    ]
    columns += [
        t("evaluate.table.ngram", order=order),
        t("evaluate.table.documents"),
        t("evaluate.table.kilobytes"),
    ]
    rows = []
    for name, score in [*result.slices.items(), (t("evaluate.table.all"), result.total)]:
        figures = result.baselines.get(name, {})
        interval = "—" if score.low is None else f"{score.low:.3f}–{score.high:.3f}"
        beside = [f"{figures[key]:.3f}" if key in figures else "" for key in ("xz", "xz_context", "ngram5")]
        rows.append([name, f"{score.bpb:.3f}", interval, *beside, score.documents, round(score.bytes / 1000)])
    print_table(columns, rows)
    print(
        t(
            "evaluate.headline",
            run=record.name,
            step=result.step,
            bpb=numerals(f"{result.total.bpb:.3f}"),
            xz=len(result.beats("xz")),
            ngram=len(result.beats("ngram5")),
            of=len(result.slices),
            order=order,
        )
    )
    _print_deeper(result.more)
    if compared is not None:
        _print_compared(compared, against or "")
    for finding in result.findings:
        print_finding(finding)
    return int(any(f.grade == "stop" for f in result.findings))


def _pairs(texts: list[str]) -> dict[str, Path]:
    """`["arc_easy=rows.jsonl"]` as {task: file}. Raises UserError for a text without =."""
    found = {}
    for text in texts:
        name, sign, file = text.rpartition("=")
        if not sign or not name or not file:
            raise UserError(t("evaluate.harness_pair", text=text), fix="--harness arc_easy=arc_easy.jsonl")
        found[name] = Path(file)
    return found


def _recorded(text: str) -> Evaluation:
    """The newest recorded evaluation of RUN, or of its step."""
    from umsicht.evaluate import load_all

    name, _, step = text.partition("@")
    found = [e for e in load_all(find_run(name)) if not step or str(e.step) == step]
    if not found:
        raise UserError(
            t("evaluate.against_missing", text=text), fix=t("evaluate.against_missing.fix", run=name)
        )
    return max(found, key=lambda e: e.created)


def _print_compared(compared: Comparison, against: str) -> None:
    print("\n" + t("evaluate.against.head", other=against))
    print_table(
        [t(f"evaluate.against.{name}") for name in ("slice", "here", "there", "difference", "documents")],
        [
            (
                d.slice,
                f"{d.first:.3f}",
                f"{d.second:.3f}",
                f"{d.first - d.second:+.3f} [{d.low:+.3f}, {d.high:+.3f}]",
                d.documents,
            )
            for d in compared.slices
        ],
    )
    if compared.tasks:
        print_table(
            [
                t(f"evaluate.against.{name}")
                for name in ("task", "difference", "only_here", "only_there", "p")
            ],
            [
                (
                    name,
                    f"{p.difference:+.3f} [{p.low:+.3f}, {p.high:+.3f}]",
                    p.only_first,
                    p.only_second,
                    f"{p.p:.3g}",
                )
                for name, p in compared.tasks.items()
            ],
        )


def _print_harness(results: list[dict[str, Any]]) -> None:
    rows = []
    for r in results:
        of = f"{r['rows']}/{r['of']}" + (f" ({t('evaluate.task.partial')})" if r["partial"] else "")
        for name, value in r["metrics"].items():
            error = f"± {r['errors'][name]:.3f}" if name in r["errors"] else "—"
            rows.append((f"lm-eval {r['task']}", name, f"{value:.3f}", error, of))
    print_table([t(f"evaluate.task.{name}") for name in ("task", "metric", "value", "error", "rows")], rows)


def _print_deeper(more: dict[str, Any]) -> None:
    if more.get("tasks"):
        print_table(
            [
                t(f"evaluate.task.{name}")
                for name in ("task", "accuracy", "error", "per_byte", "chance", "rows")
            ],
            [
                (
                    r["task"],
                    f"{r['accuracy']:.3f}",
                    f"± {r['standard_error']:.3f}",
                    f"{r['accuracy_per_byte']:.3f}",
                    f"{r['chance']:.3f}",
                    f"{r['rows']}/{r['of']}" + (f" ({t('evaluate.task.partial')})" if r["partial"] else ""),
                )
                for r in more["tasks"]
            ],
        )
    if more.get("harness"):
        _print_harness(more["harness"])
    context = more.get("context")
    if context:
        print(
            "\n"
            + t(
                "evaluate.context.used",
                used=context["used"],
                claimed=context["claimed"],
                segments=context["segments"],
            )
        )
        print_table(
            [t(f"evaluate.context.{name}") for name in ("context", "loss", "gain")],
            [
                (
                    g["context"],
                    f"{g['loss']:.3f}",
                    "—" if g["gain"] is None else f"{g['gain']:.3f} [{g['low']:.3f}, {g['high']:.3f}]",
                )
                for g in context["gains"]
            ],
        )
        print_table(
            [t(f"evaluate.context.{name}") for name in ("task", "length", "right", "chance")],
            [
                (r["task"], r["length"], f"{r['right']}/{r['trials']}", f"{r['chance']:.3f}")
                for r in context["recall"]
            ],
        )
    if more.get("facts"):
        print("\n" + t("evaluate.facts.head"))
        print_table(
            [t(f"evaluate.facts.{name}") for name in ("seen", "facts", "recall", "nats")],
            [
                (
                    f"{b['low']}–{b['high']}" if b["high"] else f"≥ {b['low']}",
                    b["facts"],
                    f"{b['recall']:.2f}",
                    f"{b['nats']:.2f}",
                )
                for b in more["facts"]
            ],
        )
