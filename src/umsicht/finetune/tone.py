"""Where the tone of a tuned model's answers comes from: the fine-tuning rows, or the text that its base was trained on.

A model can answer correctly and in an odd tone. Whoever looks for the cause in the fine-tuning rows looks in vain where the tone was in
the corpus: a few hundred rows teach a form, the base supplies how it is filled. So three shares are put side by side: answers, rows, corpus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from umsicht.evaluate import labels
from umsicht.evaluate.checkpoint import input_of
from umsicht.findings import Finding, UserError
from umsicht.record import Run, content_id
from umsicht.score.sampling import SamplingRule
from umsicht.tokenizer.chat import prompt_ids
from umsicht.tokenizer.special import IM_END

from .rows import Conversation
from .stream import stream_text
from .subject import Subject, open_subject

PROMPTS = 32
FEWEST = 12
"""Fewer answers long enough to be judged decide nothing."""
TEMPERATURE = 0.7
MAX_NEW_TOKENS = 48
NOTICEABLE = 0.05
DOUBTFUL_P = 0.01


@dataclass(frozen=True)
class Tone:
    """Shares of one tone (`promotional`, …): in `answers` judged of how many, in the fine-tuning `rows`, and in the corpus by text."""

    name: str
    answers: float
    judged: int
    rows: float
    row_count: int
    corpus: float
    example: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


def answer(subject: Subject, messages: Sequence[Mapping[str, str]], seed: int = 0) -> str:
    """What the model answers to a conversation that ends with the user's turn; the same seed gives the same answer."""
    stop = subject.tokenizer.special[IM_END]
    pieces = stream_text(
        subject,
        prompt_ids(messages, subject.tokenizer),
        rule=SamplingRule(TEMPERATURE, 0.95, 0, 0.0, 1.0),
        max_new_tokens=MAX_NEW_TOKENS,
        seed=int(content_id([seed, *(dict(one) for one in messages)])[:8], 16),
        stop_ids=[stop, subject.tokenizer.eos_id],
    )
    return "".join(pieces).strip()


def of_stage(run: Run, base: Run, rows: Sequence[Conversation]) -> list[Finding]:
    """The findings of a finished stage: `measure` on its run and the corpus of its base, judged. Empty where a part is not there."""
    if not rows or not labels.available():
        return []
    try:
        report = input_of(base, "corpus").report
        subject = open_subject(run)
    except UserError:
        return []
    return judge(measure(subject, rows, report), str(run.folder))


def measure(subject: Subject, rows: Sequence[Conversation], report: Mapping[str, Any]) -> list[Tone]:
    """Shares of each tone in answers to the rows' own prompts, in the rows, and in the corpus whose `report` is given.

    Empty where the classifiers are not installed (extra `corpus`), or too few answers are long enough to be judged.
    """
    if not labels.available():
        return []
    chosen = sorted(rows, key=lambda row: content_id(row.id))[:PROMPTS]
    written = [_row(row, answer(subject, row.messages[:-1])) for row in chosen]
    return compare(written, [_row(row, row.messages[-1]["content"]) for row in rows], report)


def compare(
    answers: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], report: Mapping[str, Any]
) -> list[Tone]:
    """As `measure`, for answers that are there already: mappings with `prompt` and `text`."""
    told = [row for row in labels.add([dict(row) for row in answers]) if "toned" in row]
    taught = [row for row in labels.add([dict(row) for row in rows]) if "toned" in row]
    if len(told) < FEWEST:
        return []
    return [
        Tone(
            name,
            _share(told, name),
            len(told),
            _share(taught, name),
            len(taught),
            corpus_share(report, name),
            next((str(row["text"]) for row in told if row["toned"].get(name)), ""),
        )
        for name in told[0]["toned"]
    ]


def corpus_share(report: Mapping[str, Any], name: str) -> float:
    """Share of the corpus's scored text, by bytes, that the classifier `name` says yes to."""
    toned = sum(source.get(name, [0, 0])[1] for source in report.get("labels", {}).values())
    scored = sum(source.get("scored", [0, 0])[1] for source in report.get("labels", {}).values())
    return toned / scored if scored else 0.0


def judge(tones: Sequence[Tone], where: str) -> list[Finding]:
    """FINETUNE/tone-from-corpus or FINETUNE/tone-from-rows where answers are noticeably toned; nothing where they are not."""
    found = []
    for tone in tones:
        if tone.answers <= NOTICEABLE:
            continue
        yes_answers, yes_rows = round(tone.answers * tone.judged), round(tone.rows * tone.row_count)
        more_than_rows = tone.answers > tone.rows and (
            not tone.row_count
            or labels.fisher(yes_answers, tone.judged, yes_rows, tone.row_count) < DOUBTFUL_P
        )
        if more_than_rows and tone.corpus > max(NOTICEABLE, tone.rows):
            slug = "tone-from-corpus"
        elif tone.rows > NOTICEABLE:
            slug = "tone-from-rows"
        else:
            continue
        numbers = {key: value for key, value in tone.to_dict().items() if key not in ("name", "example")}
        shown = {
            key: round(value, 3) if isinstance(value, float) else value for key, value in numbers.items()
        }
        found.append(
            Finding(
                f"FINETUNE/{slug}",
                "warn",
                "finetune",
                where,
                {"tone": tone.name, **shown},
                (tone.example[:160],) if tone.example else (),
            )
        )
    return found


def _row(row: Conversation, text: str) -> dict[str, Any]:
    return {"prompt": "", "language": "", "text": text, "id": row.id}


def _share(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    return sum(bool(row["toned"].get(name)) for row in rows) / len(rows) if rows else 0.0
