"""A blind round on disk: what raters see, what only the key knows, and the answers.

<round>/round.json            what is asked, of whom, how much; the key's digest; no system name
<round>/key.json              which slot of which item is which system, which items are repeats or controls
<round>/items/<rater>.jsonl   head line, then that rater's items in that rater's order, sides set for that rater
<round>/answers/<rater>.jsonl appended, the last answer to an item counts
<round>/result.json           written once, by scoring
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from umsicht.findings import UserError
from umsicht.ratings.criteria import LEVELS, Sheet
from umsicht.ratings.layout import Design, Kind, Material, lay_out
from umsicht.record.files import atomic_folder, atomic_json
from umsicht.record.ids import bytes_digest, file_digest
from umsicht.record.manifest import now
from umsicht.record.run import append_jsonl, read_jsonl
from umsicht.words import t

SCHEMA = 1
CHOICES = ("left", "right", "tie", "skip")
SKIP = "skip"


@dataclass(frozen=True)
class Item:
    """What a rater sees: two texts (pairwise) or one (`right` is empty)."""

    id: str
    prompt: str
    left: str
    right: str


class Round:
    """An existing round. Nothing here tells who wrote what; only `read_key` does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._items: dict[str, list[Item]] = {}
        try:
            self.head: dict[str, Any] = orjson.loads((folder / "round.json").read_bytes())
        except (OSError, orjson.JSONDecodeError):
            raise UserError(t("ratings.no_round", folder=folder), fix=t("ratings.no_round.fix")) from None

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def kind(self) -> Kind:
        return "scores" if self.head["kind"] == "scores" else "pairwise"

    @property
    def raters(self) -> tuple[str, ...]:
        return tuple(self.head["raters"])

    @cached_property
    def sheet(self) -> Sheet:
        """The criteria."""
        return Sheet.from_dict(self.head["sheet"])

    def items(self, rater: str) -> list[Item]:
        """A rater's items in that rater's order. Raises UserError for a name the round does not have."""
        if rater not in self.raters:
            raise UserError(
                t("ratings.no_rater", rater=rater),
                fix=t("ratings.no_rater.fix", known=", ".join(self.raters)),
            )
        if rater not in self._items:
            head, *rows = read_jsonl(self.folder / "items" / f"{rater}.jsonl") or [{}]
            if head.get("key_digest") != self.head["key_digest"]:
                raise UserError(
                    t("ratings.key_changed"), where=str(self.folder), why=t("ratings.key_changed.why")
                )
            self._items[rater] = [Item(r["item"], r["prompt"], r["left"], r.get("right", "")) for r in rows]
        return self._items[rater]

    def answers(self, rater: str) -> dict[str, dict[str, Any]]:
        """The answer that counts for each item: the last one."""
        rows = read_jsonl(self.folder / "answers" / f"{rater}.jsonl")
        return {str(row["item"]): row for row in rows if "item" in row}

    def waiting(self, rater: str) -> list[Item]:
        """Items without an answer, in order."""
        done = self.answers(rater)
        return [item for item in self.items(rater) if item.id not in done]

    def answer(
        self, rater: str, item: str, value: Any, *, seconds: float | None = None, note: str = ""
    ) -> None:
        """Record an answer: one of `CHOICES` (pairwise) or `{criterion: 1..5 or "skip"}` (scores). Raises UserError otherwise."""
        if item not in {one.id for one in self.items(rater)}:
            raise UserError(t("ratings.no_item", item=item), where=rater)
        checked = check_answer(value, self.kind, self.sheet)
        if (self.folder / "result.json").exists():
            raise UserError(t("ratings.closed", name=self.name), why=t("ratings.closed.why"))
        row: dict[str, Any] = {"item": item, "answer": checked, "time": now()}
        if seconds is not None:
            row["seconds"] = round(seconds, 1)
        if note:
            row["note"] = note
        path = self.folder / "answers" / f"{rater}.jsonl"
        append_jsonl(path, [row])

    def progress(self) -> dict[str, tuple[int, int]]:
        """For each rater: answers given, answers planned."""
        return {
            rater: (len(self.items(rater)) - len(self.waiting(rater)), len(self.items(rater)))
            for rater in self.raters
        }

    @property
    def is_complete(self) -> bool:
        """Every planned answer is in: only then may the key be opened."""
        return all(done == planned for done, planned in self.progress().values())

    def read_key(self) -> dict[str, Any]:
        """Who wrote what. Raises UserError before all planned answers are in, and where the key is not the round's."""
        if not self.is_complete:
            rows = [f"{rater} {done}/{planned}" for rater, (done, planned) in self.progress().items()]
            raise UserError(
                t("ratings.not_complete"),
                where=", ".join(rows),
                why=t("ratings.not_complete.why"),
                fix=t("ratings.not_complete.fix", name=self.folder),
            )
        path = self.folder / "key.json"
        if not path.is_file() or file_digest(path, fresh=True) != self.head["key_digest"]:
            raise UserError(t("ratings.key_changed"), where=str(path), why=t("ratings.key_changed.why"))
        key: dict[str, Any] = orjson.loads(path.read_bytes())
        return key


def check_answer(value: Any, kind: Kind, sheet: Sheet) -> Any:
    """The answer in its stored form. Raises UserError where it is none."""
    if kind == "pairwise":
        word = str(value).strip().lower()
        if word not in CHOICES:
            raise UserError(
                t("ratings.bad_choice", value=value),
                fix=t("ratings.bad_choice.fix", known=", ".join(CHOICES)),
            )
        return word
    known = {c.id for c in sheet.criteria}
    if not isinstance(value, Mapping) or set(value) != known:
        raise UserError(
            t("ratings.bad_scores", value=value),
            fix=t("ratings.bad_scores.fix", known=", ".join(sorted(known))),
        )
    result: dict[str, int | str] = {}
    for name, level in value.items():
        text = str(level).strip().lower()
        if text == SKIP:
            result[name] = SKIP
        elif text.isdigit() and int(text) in LEVELS:
            result[name] = int(text)
        else:
            raise UserError(
                t("ratings.bad_level", criterion=name, value=level), fix=t("ratings.bad_level.fix")
            )
    return result


def create(folder: Path, material: Sequence[Material], design: Design, sheet: Sheet) -> Round:
    """Lay out a round: sides balanced, an order of its own for each rater, repeats (sides swapped) and controls hidden in it.

    `material` is pairs for a pairwise round, outputs for scores. Raises UserError where the folder exists or the design
    is impossible.
    """
    if folder.exists():
        raise UserError(t("ratings.exists", folder=folder), fix=t("ratings.exists.fix"))
    bad = [
        r
        for r in design.raters
        if not r or not all(ch.isalnum() or ch in "-_." for ch in r) or r.startswith(".")
    ]
    if not material or not design.raters or len(set(design.raters)) != len(design.raters) or bad:
        raise UserError(
            t("ratings.bad_design", raters=", ".join(design.raters)), fix=t("ratings.bad_design.fix")
        )
    seed = secrets.randbits(62) if design.seed is None else design.seed
    layouts = {rater: lay_out(material, design, seed, number) for number, rater in enumerate(design.raters)}
    key = {
        "schema": SCHEMA,
        "seed": seed,
        "kind": design.kind,
        "items": {slot.id: slot.secret() for layout in layouts.values() for slot in layout},
    }
    key_bytes = orjson.dumps(key, option=orjson.OPT_INDENT_2)
    head = {
        "schema": SCHEMA,
        "kind": design.kind,
        "created": now(),
        "raters": list(design.raters),
        "planned": {rater: len(layout) for rater, layout in layouts.items()},
        "regular": len(material),
        "key_digest": bytes_digest(key_bytes),
        "sheet": sheet.to_dict(),
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(folder) as made:
        (made / "key.json").write_bytes(key_bytes)
        (made / "answers").mkdir()
        for rater, layout in layouts.items():
            head_row = {
                "schema": SCHEMA,
                "round": folder.name,
                "rater": rater,
                "key_digest": head["key_digest"],
            }
            append_jsonl(made / "items" / f"{rater}.jsonl", [head_row, *(slot.shown() for slot in layout)])
        atomic_json(made / "round.json", head)
    return Round(folder)
