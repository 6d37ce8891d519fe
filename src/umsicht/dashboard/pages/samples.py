"""The same prompt and seed across checkpoints, side by side, with the words that changed and the numbers that drift."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from umsicht.dashboard import numbers
from umsicht.dashboard.context import entry_of, facts_of, lang_of
from umsicht.dashboard.facts import Json
from umsicht.dashboard.html_report import how, sample_step
from umsicht.dashboard.pages.live import run_page
from umsicht.dashboard.svg import Line, line_chart
from umsicht.words import t

SIDE_BY_SIDE = 3
DRIFT = ("repetition", "distinct_2", "copied_share", "promotional", "toxic")


@dataclass(frozen=True)
class Output:
    """One sample of one checkpoint: text in pieces, `is_new` where the words are not in the column before."""

    step: int
    pieces: tuple[tuple[str, bool], ...]
    chips: tuple[str, ...]


def samples(request: Request) -> Response:
    """The page; `?at=` is the newest step shown, so that `[` and `]` walk through the checkpoints."""
    entry, lang = entry_of(request), lang_of(request)
    rows = facts_of(entry).samples
    steps = sorted({sample_step(row) for row in rows})
    at = _chosen(request.query_params.get("at"), steps)
    place = steps.index(at) if at in steps else -1
    window = steps[max(0, place - SIDE_BY_SIDE + 1) : place + 1]
    return run_page(
        request,
        "samples.html",
        "samples",
        steps=steps,
        window=window,
        groups=groups(rows, window, lang),
        earlier=steps[place - 1] if place > 0 else None,
        later=steps[place + 1] if 0 <= place < len(steps) - 1 else None,
        drift=drift(rows, lang),
        protocols=len({row.get("protocol") for row in rows if row.get("protocol")}),
        total=len(rows),
    )


def _chosen(text: str | None, steps: Sequence[int]) -> int:
    if text and text.isdigit() and int(text) in steps:
        return int(text)
    return steps[-1] if steps else -1


def groups(rows: Sequence[Json], window: Sequence[int], lang: str) -> list[dict[str, Any]]:
    """One group a prompt and way of drawing, in the order of the record: all of them, never the nicest."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = (
            row.get("prompt_id") or row.get("prompt"),
            row.get("seed"),
            row.get("temperature"),
            row.get("top_p"),
        )
        group = found.setdefault(
            key, {"prompt": str(row.get("prompt", "")), "how": how(row, lang), "by_step": {}}
        )
        if sample_step(row) in window:
            group["by_step"].setdefault(sample_step(row), row)
    made = []
    for group in found.values():
        outputs, before = [], None
        for step in window:
            row = group["by_step"].get(step)
            if row is None:
                continue
            said = str(row.get("text") or "")
            outputs.append(Output(step, changed(before, said), chips(row, lang)))
            before = said
        if outputs:
            made.append({"prompt": group["prompt"], "how": group["how"], "outputs": outputs})
    return made


def chips(row: Json, lang: str) -> tuple[str, ...]:
    """The measured traits of one output."""
    made = []
    for name in ("repetition", "distinct_2", "copied_share"):
        value = row.get(name)
        if isinstance(value, (int, float)):
            made.append(
                f"{t(f'dashboard.samples.{name}', lang=lang)} {numbers.percent(float(value), lang, 0)}"
            )
    for name in ("tone", "label", "detected_language"):
        if isinstance(row.get(name), str) and row[name]:
            made.append(row[name])
    if row.get("loop_tokens"):
        made.append(t("dashboard.samples.loops", lang=lang))
    if row.get("ended") is False:
        made.append(t("dashboard.samples.cut", lang=lang))
    return tuple(made)


def changed(before: str | None, after: str) -> tuple[tuple[str, bool], ...]:
    """`after` in pieces; True marks words that are not where they were in `before`. Nothing is marked in the first column."""
    if before is None:
        return ((after, False),)
    old, new = re.findall(r"\S+|\s+", before), re.findall(r"\S+|\s+", after)
    pieces: list[tuple[str, bool]] = []
    for kind, _, _, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if end > start:
            pieces.append(("".join(new[start:end]), kind != "equal"))
    return tuple(pieces)


def drift(rows: Sequence[Json], lang: str) -> str:
    """How repetition, variety, copying and tone of all samples developed, as one chart."""
    lines = []
    for slot, name in enumerate(DRIFT):
        means = _means(rows, name)
        if len(means) >= 2:
            label = t(f"dashboard.samples.{name}", lang=lang)
            lines.append(Line(label, list(map(float, means)), list(means.values()), slot=slot, dots=True))
    if not lines:
        return ""
    title = t("dashboard.samples.drift", lang=lang)
    step = t("dashboard.axis.step", lang=lang)
    return line_chart(
        lines, title=title, summary="", lang=lang, x_label=step, width=1080, height=220, log_y=False
    )


def _means(rows: Sequence[Json], name: str) -> dict[int, float]:
    by_step: dict[int, list[float]] = {}
    for row in rows:
        value = row.get(name)
        if isinstance(value, (int, float)):
            by_step.setdefault(sample_step(row), []).append(float(value))
    return {step: sum(values) / len(values) for step, values in sorted(by_step.items())}


ROUTES = [Route("/run/{run}/samples", samples)]
