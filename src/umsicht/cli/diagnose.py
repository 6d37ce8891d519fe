"""`umsicht diagnose`: what the curves of a run mean and what to look at next."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from umsicht.cli.output import console, print_json, print_table
from umsicht.cli.projects import find_run
from umsicht.diagnose.model import Diagnosis, Event
from umsicht.findings import UserError
from umsicht.words import numerals, t

STYLE = {"healthy": "bold green", "uncertain": "bold yellow", "too-early": "bold yellow"}
SHOWN_EVENTS = 8


def diagnose(
    run: str,
    *,
    column: list[str] | None = None,
    vocab_size: int | None = None,
    samples: bool = False,
    prompt: str | None = None,
    temperature: float = 0.8,
    top_p: float = 0.95,
    json: bool = False,
) -> int:
    """Say what the curves of a run mean, with the numbers behind it, and what to do next.

    Exit code 1 where the verdict names a fault.

    Parameters
    ----------
    run
        A run's folder or name, a project's folder (its newest run), or a log: metrics.jsonl, CSV or TSV, TensorBoard events,
        trainer_state.json, a W&B export, lines of llm.c or Megatron.
    column
        For tables: which column is what, for example train/loss=Verlust. May be given several times.
    vocab_size
        For logs that do not say it: the loss of guessing is then ln of it.
    samples
        Look at sampling instead of curves: the prompt in the actual tokenizer, the way of drawing, the end token.
    prompt
        With --samples: the prompt whose outputs disappoint; without one, a prompt that the run was sampled with.
    temperature
        With --samples: the temperature that was used.
    top_p
        With --samples: the top-p that was used.
    json
        Print JSON.
    """
    if samples:
        from umsicht.cli.trouble import trouble

        return trouble(run, prompt, temperature, top_p, json)
    from umsicht.diagnose import diagnose as diagnose_path

    path = Path(run)
    if not path.exists() or (
        path.is_dir() and not (path / "metrics.jsonl").exists() and (path / "runs").is_dir()
    ):
        path = find_run(run).folder
    made = diagnose_path(path, columns=column_map(column or []), vocab_size=vocab_size)
    if json:
        print_json(made.to_dict())
    else:
        show(made)
    return 1 if made.ill else 0


def column_map(pairs: list[str]) -> dict[str, str]:
    """`["train/loss=Verlust"]` → `{"train/loss": "Verlust"}`. Raises UserError for a pair without "="."""
    mapped = {}
    for pair in pairs:
        name, sign, column = pair.partition("=")
        if not sign or not name or not column:
            raise UserError(t("diagnose.column.bad", pair=pair), fix="--column train/loss=NAME")
        mapped[name.strip()] = column.strip()
    return mapped


def show(made: Diagnosis) -> None:
    """The diagnosis as text."""
    out = console()
    style = STYLE.get(made.verdict, "bold red")
    level = t(f"diagnose.confidence.{made.confidence}")
    out.print(
        Text.assemble(
            (f"{t('diagnose.head.verdict')}: {made.title}", style),
            (f"  [{made.verdict}; {t('diagnose.head.confidence')}: {level}]", "dim"),
        )
    )
    out.print(Text(made.summary))
    if made.evidence:
        out.print(Text(f"\n{t('diagnose.head.evidence')}", style="bold"))
        columns = [t(f"diagnose.col.{name}") for name in ("what", "metric", "step", "value")]
        rows = [(t(f"diagnose.role.{e.role}"), e.metric, e.step, f"{e.value:.5g}") for e in made.evidence]
        print_table(columns, rows)
    if made.missing:
        out.print(
            Text(f"\n{t('diagnose.head.missing')}: " + "; ".join(_missing(code) for code in made.missing))
        )
    for item in made.also:
        out.print(Text(f"{t('diagnose.head.also')}: {item.text}"))
    if made.causes:
        out.print(Text(f"\n{t('diagnose.head.causes')}", style="bold"))
        for number, cause in enumerate(made.causes, 1):
            out.print(Text(f"  {number}. {t(f'diagnose.cause.{cause}')}"))
    if made.next_steps:
        out.print(Text(f"\n{t('diagnose.head.next')}", style="bold"))
        for number, step in enumerate(made.next_steps, 1):
            out.print(Text(f"  {number}. {step.text} ({t('diagnose.because')}: {step.reason})"))
            if step.command:
                out.print(Text(f"     {step.command}", style="cyan"))
    _show_events(made.events)
    out.print(Text("\n" + t("diagnose.head.read") + ": " + t("diagnose.read.line", **made.read), style="dim"))


def _missing(code: str) -> str:
    metric, at, step = code.partition("@")
    return t("diagnose.missing.at", metric=metric, step=step) if at else t(f"diagnose.missing.{code}")


def _show_events(events: tuple[Event, ...]) -> None:
    if not events:
        return
    out = console()
    out.print(Text(f"\n{t('diagnose.head.events')}", style="bold"))
    for event in events[:SHOWN_EVENTS]:
        parts = [f"{event.step:>8}  {t(f'diagnose.event.{event.kind}')}"]
        if event.recovered is not None and event.kind in ("spike", "level-shift-up", "nonfinite"):
            parts.append(t("diagnose.event.recovered" if event.recovered else "diagnose.event.lost"))
        if event.explained_by:
            parts.append(t("diagnose.event.explained", by=t(f"diagnose.event.{event.explained_by}")))
        numbers = ", ".join(
            f"{t(f'diagnose.number.{key}')} {numerals(format(value, '.4g'))}"
            for key, value in list(event.numbers.items())[:4]
        )
        out.print(Text("  ".join([*parts, numbers])))
    if len(events) > SHOWN_EVENTS:
        out.print(Text("          " + t("diagnose.events.more", n=len(events) - SHOWN_EVENTS), style="dim"))
