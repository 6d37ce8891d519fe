"""The table of measured figures in both READMEs, read from the pages that the benches write."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

MEASURED = Path(__file__).resolve().parents[1] / "measured"


class Page:
    """One page of docs/measured: its tables, cell by cell."""

    def __init__(self, name: str) -> None:
        self.text = (MEASURED / f"{name}.md").read_text(encoding="utf-8")
        lines = [line for line in self.text.splitlines() if line.startswith("| ")]
        self.rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]

    def value(self, figure: str) -> str:
        """The value of a figure. Raises KeyError where the page has none of that name."""
        return self._row(figure)[1]

    def note(self, figure: str) -> str:
        """What stands beside it: mostly the count behind a share."""
        return self._row(figure)[4]

    def _row(self, figure: str) -> list[str]:
        for row in self.rows:
            if row[0] == figure:
                return row
        raise KeyError(figure)


def faults() -> tuple[str, str]:
    """Planted faults, and alarms where there was none."""
    page = Page("faults")
    named, before = page.note("faults named, family and place"), page.note("faults named before the long run")
    alarms = page.value("healthy runs with an alarm")
    healthy = page.note("healthy runs with an alarm").removeprefix("n = ")
    return (
        f"{named} named, {before} before the long run; {alarms} of {healthy} healthy runs with an alarm",
        f"{_german_of(named)} benannt, {_german_of(before)} vor dem langen Lauf; Alarm in {alarms} von {healthy} gesunden Läufen",
    )


def curves() -> tuple[str, str]:
    """Curves that no threshold was set on."""
    page = Page("curves")
    right = page.note("scored: classified right")
    ill, healthy = page.value("scored: healthy curves called ill"), page.value("scored: healthy among them")
    return (
        f"{right} called right; {ill} of {healthy} healthy ones called ill",
        f"{_german_of(right)} richtig beurteilt; {ill} von {healthy} gesunden krank genannt",
    )


def survival() -> tuple[str, str]:
    """Jobs hurt while they trained."""
    compared = [row for row in Page("survival").rows if row[0].endswith("steps whose loss differs")]
    same = sum(row[1] == "0" for row in compared)
    return (
        f"losses as in an unbroken run, to the last bit: {same} of {len(compared)}",
        f"Losses wie im ungestörten Lauf, bis aufs letzte Bit: {same} von {len(compared)}",
    )


def guards() -> tuple[str, str]:
    """The price of all monitors."""
    page = Page("guards")
    ratio, upper = (
        page.value(name) for name in ("median ratio of processor time", "its upper bound (bootstrap, 95 %)")
    )
    return (
        f"{ratio} times the processor time of a step without (upper bound {upper})",
        f"das {ratio}-Fache der Prozessorzeit eines Schrittes ohne sie (obere Grenze {upper})",
    )


def parity() -> tuple[str, str]:
    """Logits, losses, gradients and files beside other programs."""
    judged = [row[3] for row in Page("parity").rows if len(row) == 5 and row[3] not in ("verdict", "info")]
    met = judged.count("ok")
    return (
        f"{met} of {len(judged)} comparisons within their bounds",
        f"{met} von {len(judged)} Vergleichen in ihren Grenzen",
    )


def duplicates() -> tuple[str, str]:
    """Near-duplicates beside programs that do not verify what they find."""
    return _times("near-duplicate removal, processor time")


def quality() -> tuple[str, str]:
    """Bits per byte in less time than the other program had."""
    found = _peers(r"2 min of training: umsicht in (\d+)% of its time")
    said = [(name, gain.split()[0].lstrip("+"), match[1]) for name, gain, match in found]
    return (
        "; ".join(f"{name}: lower by {gain} in {share} % of its time" for name, gain, share in said),
        "; ".join(f"{name}: um {gain} niedriger in {share} % seiner Zeit" for name, gain, share in said),
    )


def steps(what: str, precision: str) -> tuple[str, str]:
    """The comparison of speed alone: like with like, compiled or not."""
    eager, compiled = (
        _times(f"{what}, processor time, {kind}, {precision}") for kind in ("eager", "compiled")
    )
    return (
        f"both compiled: {compiled[0]}; neither: {eager[0]}",
        f"beide kompiliert: {compiled[1]}; keiner: {eager[1]}",
    )


def _times(pattern: str) -> tuple[str, str]:
    """What the other programs needed, as a multiple of ours."""
    found = [(name, times.split()[0]) for name, times, _ in _peers(pattern)]
    return (
        "; ".join(f"{name} {times} times ours" for name, times in found),
        "; ".join(f"{name} das {times}-Fache" for name, times in found),
    )


def _peers(pattern: str) -> list[tuple[str, str, re.Match[str]]]:
    """(program, what ours is better by, the match) of every comparison of this kind, in the page's order."""
    matches = [(row, re.fullmatch(pattern, row[1])) for row in Page("peers").rows if len(row) > 2]
    return [(row[0], row[2], match) for row, match in matches if match]


def _german_of(share: str) -> str:
    return share.replace(" of ", " von ")


ROWS: tuple[tuple[str, str, str, Callable[[], tuple[str, str]]], ...] = (
    ("faults", "faults planted in working pipelines, loud and faint", "Fehler, laut und leise in funktionierende Abläufe eingebaut", faults),
    ("curves", "training curves of known cause, diagnosed", "Kurven bekannter Ursache, beurteilt", curves),
    ("survival", "running jobs hurt: killed, frozen, cut off, disk full", "laufende Jobs gestört: beendet, eingefroren, vom Netz getrennt, Platte voll", survival),
    ("guards", "all monitors during training", "alle Wächter während des Trainings", guards),
    ("parity", "the same numbers as transformers, TRL, PEFT, gguf, lm-eval", "dieselben Zahlen wie transformers, TRL, PEFT, gguf, lm-eval", parity),
    ("peers", "finding near-duplicates (ours are verified), processor time", "Beinahe-Duplikate finden (unsere sind nachgeprüft), Prozessorzeit", duplicates),
    ("peers", "bits per byte beside two minutes of another trainer", "Bits pro Byte neben zwei Minuten eines anderen Trainers", quality),
    ("peers", "one training step in bfloat16, processor time", "ein Trainingsschritt in bfloat16, Prozessorzeit", partial(steps, "training step", "bfloat16")),
    ("peers", "the same in float32, on a processor without bfloat16", "dasselbe in float32, auf einem Prozessor ohne bfloat16", partial(steps, "training step without bfloat16", "float32")),
)  # fmt: skip


def measured(is_german: bool) -> str:
    """The table: what, the figure, and the page that it comes from."""
    head = ("was", "gemessen", "Seite") if is_german else ("what", "measured", "page")
    lines = [f"| {head[0]} | {head[1]} | {head[2]} |", "|---|---|---|"]
    for page, english, german, figure in ROWS:
        said = figure()[is_german]
        if is_german:
            said = re.sub(r"(?<=\d)\.(?=\d)", ",", said)
        lines.append(f"| {german if is_german else english} | {said} | [{page}](docs/measured/{page}.md) |")
    return "\n".join(lines)
