"""`umsicht read`: what the model wrote and nobody has read yet; takes a short note on each batch."""

from __future__ import annotations

import sys

from umsicht.cli.output import console, print_json
from umsicht.cli.projects import find_run
from umsicht.evaluate import reading
from umsicht.findings import UserError
from umsicht.record.run import Run
from umsicht.words import t


def read(
    run: str,
    *,
    step: int | None = None,
    limit: int | None = None,
    seed: int = 0,
    note: str = "",
    json: bool = False,
) -> int:
    """Show outputs that nobody has read yet, evaluation by evaluation, and keep a one-line note on each.

    Without a terminal it only shows; give `--step` and `--note` to record what you thought.

    Parameters
    ----------
    run
        A run's folder or name, or a project's folder (its newest run).
    step
        Only the outputs of this step, read or not.
    limit
        Show at most so many outputs of an evaluation, drawn at random; all of them by default.
    seed
        Seed of that draw.
    note
        Record this note for `--step` without asking.
    json
        Print what is unread as JSON.
    """
    record = find_run(run)
    batches = reading.batches(record)
    if note and step is None:
        raise UserError(t("evaluate.read.note_without_step"), fix=t("evaluate.read.note_without_step.fix"))
    if step is not None:
        known = ", ".join(str(batch.step) for batch in batches) or "—"
        batches = [batch for batch in batches if batch.step == step]
        if not batches:
            raise UserError(
                t("evaluate.read.no_step", step=step), fix=t("evaluate.read.no_step.fix", known=known)
            )
    waiting = batches if step is not None else [batch for batch in batches if not batch.is_read]
    if json:
        rows = [{"step": b.step, "outputs": reading.choose(b, limit, seed)} for b in waiting]
        print_json({"run": record.name, "unread": rows, "notes": reading.notes(record)})
    elif not waiting:
        _nothing_left(record, len(batches))
    else:
        _show_all(record, waiting, limit, seed, note)
    return 0


def _nothing_left(record: Run, batches: int) -> None:
    past = reading.notes(record)
    if not batches:
        print(t("evaluate.read.none"))
    else:
        print(t("evaluate.read.all_read", batches=batches, note=past[-1]["note"] if past else "—"))


def _show_all(record: Run, waiting: list[reading.Batch], limit: int | None, seed: int, given: str) -> None:
    for left, batch in zip(range(len(waiting) - 1, -1, -1), waiting, strict=True):
        rows = reading.choose(batch, limit, seed)
        _show(batch, rows, left, seed)
        text = given or _ask()
        if text == "q":
            return
        if text:
            reading.note(record, batch.step, [str(row["id"]) for row in rows], text)
            print(t("evaluate.read.noted", step=batch.step))


def _show(batch: reading.Batch, rows: list[dict[str, object]], left: int, seed: int) -> None:
    from rich.text import Text

    out = console()
    heading = t("evaluate.read.batch", step=batch.step, unread=batch.unread, outputs=len(batch.rows))
    if left:
        heading += " " + t("evaluate.read.more", count=left)
    out.print(Text(heading, "bold"))
    for row in rows:
        how = (
            t("evaluate.read.greedy")
            if not row["temperature"]
            else t("evaluate.read.seeded", temperature=row["temperature"], seed=row["seed"])
        )
        out.print(Text(f"\n{row['prompt_id']} · {row['language']} · {how}", "dim"))
        out.print(Text.assemble((str(row["prompt"]), "bold"), str(row["text"])))
    if len(rows) < batch.unread:
        out.print(
            Text("\n" + t("evaluate.read.batch_note", outputs=len(rows), seed=seed, of=batch.unread), "dim")
        )


def _ask() -> str:
    if not sys.stdin.isatty():
        return ""
    try:
        return input("\n" + t("evaluate.read.ask")).strip()
    except EOFError:
        return "q"
