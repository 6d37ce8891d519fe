"""Fills figures into written pages, so that no number stands in two places by hand.

    python docs/_site/fill.py [--check]

The quickstart's table and samples come from README.md, the measured figures from docs/measured, what the thirteen mistakes printed from examples/mistakes/measured.json. A block begins with
`<!-- filled by docs/_site/fill.py from FILE: NAME -->` and ends with `<!-- end -->`. With --check nothing is written: exit code 1 where a page is behind.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from measured import measured

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r"(<!-- filled by docs/_site/fill\.py from [^:]+: (?P<name>[a-z0-9-]+) -->\n).*?(<!-- end -->)", re.DOTALL
)
GERMAN_HEAD = "| Teilmenge | Bytes | Modell | xz -9 | xz mit dem Trainingstext | 5-Gramm |"


def german(page: Path) -> bool:
    """Whether a page is a German one."""
    return page.name == "README.de.md" or "de" in page.relative_to(ROOT).parts


def quickstart(is_german: bool) -> str:
    """Table, what it beats, and samples of the real run in README.md."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    part = readme.partition("<!-- real-run -->")[2].partition("\n```")[0].strip()
    if not is_german:
        return part
    lines = part.splitlines()
    table = [line for line in lines if line.startswith("|")]
    rows = [[cell.strip().strip("*") for cell in line.strip("|").split("|")] for line in table[2:]]
    beaten = [sum(float(row[2]) < float(row[column]) for row in rows) for column in (3, 5)]
    samples = [line for line in lines if line.startswith(">")]
    n = len(rows)
    return "\n".join(
        [
            "Aus einem wirklichen Lauf (Seed 0), Bits pro Byte auf zurückgehaltenem Text; das Beste einer Zeile ist fett:",
            "",
            GERMAN_HEAD,
            table[1],
            *(_with_commas(line) for line in table[2:]),
            "",
            f"Besser als `xz -9` auf {beaten[0]} von {n} Teilmengen, besser als das 5-Gramm auf {beaten[1]} von {n}. Und das schreibt es, der Prompt steht fett davor:",
            "",
            *samples,
        ]
    )


def _with_commas(line: str) -> str:
    """A row of the table with its numbers written as in German."""
    return re.sub(r"\d[\d.,]*\d", lambda match: match[0].translate(str.maketrans(".,", ",.")), line)


def mistake(key: str, is_german: bool) -> str:
    """What `python examples/mistakes KEY` found and measured; the key is a number or a name."""
    path = ROOT / "examples" / "mistakes" / "measured.json"
    known: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    found = next((one for one in known if key in (str(one["number"]), one["slug"])), None)
    if found is None:
        return "*Noch nicht gemessen.*" if is_german else "*Not measured yet.*"
    words = found["de" if is_german else "en"]
    who = f"`{found['finding']}`: " if found["finding"] else ""
    heads = (
        ("Was es sagte", "Nächster Schritt", "vorher", "nachher")
        if is_german
        else ("What it said", "Next step", "before", "after")
    )
    seen = " ".join(words["seen"].split()).replace("|", "\\|").rstrip(".") + "."
    values = [words[key] for key in ("before", "after")]
    if is_german:
        values = [value.replace(".", ",").replace("%", " %") for value in values]
    return "\n".join(
        [
            f"| | {heads[2]} | {heads[3]} |",
            "|---|---|---|",
            f"| {words['number']} | **{values[0]}** | **{values[1]}** |",
            "",
            f"*{heads[0]}.* {who}{seen}",
            "",
            f"*{heads[1]}.* {words['change'][0].upper()}{words['change'][1:]}.",
        ]
    )


TONE_LINES = (
    ("mix_share", "travel shop, share of the training tokens", "Reiseshop, Anteil an den Trainings-Tokens"),
    (
        "rows_share",
        "promotional, share of the fine-tuning rows",
        "werblich, Anteil der Zeilen des Nachtrainings",
    ),
    ("tone_share", "**promotional, share of the answers**", "**werblich, Anteil der Antworten**"),
    ("correct_share", "answers that name the right river", "Antworten mit dem richtigen Fluss"),
)


def tone(is_german: bool) -> str:
    """What `python examples/promotional-tone --json` measured, and two answers side by side."""
    path = ROOT / "examples" / "promotional-tone" / "measured.json"
    if not path.is_file():
        return "*Noch nicht gemessen.*" if is_german else "*Not measured yet.*"
    told = json.loads(path.read_text(encoding="utf-8"))
    before, after = told["as-collected"], told["rebalanced"]
    heads = ("wie gesammelt", "umgewichtet") if is_german else ("as collected", "rebalanced")
    lines = [f"| | {heads[0]} | {heads[1]} |", "|---|---|---|"]
    for key, english, german_text in TONE_LINES:
        percent = "{:.0%}" if not is_german else "{:.0f} %"
        values = [percent.format(one[key] * (100 if is_german else 1)) for one in (before, after)]
        lines.append(f"| {german_text if is_german else english} | {values[0]} | {values[1]} |")
    lines.append("")
    for number in range(4):
        question = before["questions"][number]
        lines += [f"> **{question}**", ">", f"> *{heads[0]}:* {before['answers'][number]}", ">"]
        lines += [f"> *{heads[1]}:* {after['answers'][number]}", ""]
    minutes = f"{told['seconds'] / 60:.1f}"
    where = told.get("where", "")
    lines.append(
        f"{minutes.replace('.', ',')} Minuten im Ganzen; {where}."
        if is_german
        else f"{minutes} minutes in all; {where}."
    )
    return "\n".join(lines)


def filled(page: Path) -> str:
    """The page with every block up to date."""

    def block(match: re.Match[str]) -> str:
        name = match["name"]
        whole = {"quickstart": quickstart, "measured": measured, "promotional-tone": tone}
        make = whole.get(name)
        text = make(german(page)) if make else mistake(name.removeprefix("mistake-"), german(page))
        return f"{match[1]}\n{text}\n\n{match[3]}"

    return BLOCK.sub(block, page.read_text(encoding="utf-8"))


def pages() -> list[Path]:
    """Every page that may hold a block."""
    return [ROOT / "README.md", ROOT / "README.de.md", *sorted((ROOT / "docs").rglob("*.md"))]


def main() -> int:
    """Fill, or say which pages are behind."""
    behind = [page for page in pages() if filled(page) != page.read_text(encoding="utf-8")]
    if "--check" in sys.argv:
        for page in behind:
            print(f"{page.relative_to(ROOT)} is behind: python docs/_site/fill.py")
        return 1 if behind else 0
    for page in behind:
        page.write_text(filled(page), encoding="utf-8")
        print(f"filled {page.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
