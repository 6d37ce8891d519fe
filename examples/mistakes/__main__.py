"""The thirteen mistakes and two more, each planted, found, mended and measured on a small corpus.

python examples/mistakes                 # the list
python examples/mistakes 5 [--lang de]   # one of them; the two more by name: target-shift, two-changes
python examples/mistakes all --json measured.json
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import data
import decide
import judge
from shop import CommandFailed, Shop, Story, Told, Words

import train

STORIES: dict[str, Story] = {
    story.key: story
    for story in sorted(
        (story for room in (data, decide, train, judge) for story in room.STORIES),
        key=lambda story: (story.number or 99, story.slug),
    )
}
SEEN = Words("What Umsicht says:", "Was Umsicht sagt:")
DONE = Words("Next step taken", "Nächster Schritt getan")
BEFORE = Words("before", "vorher")
AFTER = Words("after", "nachher")


def show(told: Told, lang: str) -> None:
    """The finding, the change and the number."""
    from umsicht.cli.output import print_finding

    print(f"\n{SEEN[lang]}")
    if told.finding is not None:
        print_finding(told.finding)
    elif told.seen is not None:
        print(told.seen[lang])
    print(f"\n{DONE[lang]}: {told.change[lang]}")
    print(
        f"{told.number[lang]}: {BEFORE[lang]} {told.shown(told.before)}, {AFTER[lang]} {told.shown(told.after)}"
    )


def plain(story: Story, told: Told, seconds: float) -> dict[str, Any]:
    """As plain JSON, both languages inside."""
    from umsicht.findings import render

    def seen(lang: str) -> str:
        if told.finding is None:
            return told.seen[lang] if told.seen is not None else ""
        words = render(told.finding, lang)
        return f"{words.title}. {words.seen}"

    return {
        "number": story.number,
        "slug": story.slug,
        "finding": told.finding.id if told.finding is not None else None,
        "grade": told.finding.grade if told.finding is not None else None,
        "before": told.before,
        "after": told.after,
        "seconds": round(seconds, 1),
        **{
            lang: {
                "title": story.title[lang],
                "seen": seen(lang),
                "change": told.change[lang],
                "number": told.number[lang],
                "before": told.shown(told.before),
                "after": told.shown(told.after),
            }
            for lang in ("en", "de")
        },
    }


def main() -> int:
    """Tell one story, or all."""
    parser = argparse.ArgumentParser(
        prog="examples/mistakes", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("which", nargs="?", help="1 to 13, target-shift, two-changes, or all")
    parser.add_argument(
        "--out", type=Path, help="folder to work in; by default one that is removed at the end"
    )
    parser.add_argument("--lang", choices=("en", "de"), default=os.environ.get("UMSICHT_LANG", "en"))
    parser.add_argument("--json", type=Path, help="also keep what was found and measured in this file")
    chosen = parser.parse_args()
    from umsicht.words import set_language

    set_language(chosen.lang)
    if chosen.which is None:
        for story in STORIES.values():
            print(
                f"{story.number or '+':>2}  {story.title[chosen.lang]}{'' if story.number else f' ({story.key})'}"
            )
        return 0
    wanted = list(STORIES) if chosen.which == "all" else [chosen.which]
    if chosen.which not in (*STORIES, "all"):
        parser.error(f"{', '.join(STORIES)}, or all")
    found, failed = [], 0
    for key in wanted:
        story = STORIES[key]
        print(f"\n== {f'{key}. ' if story.number else ''}{story.title[chosen.lang]}", flush=True)
        with tempfile.TemporaryDirectory(prefix="umsicht-mistake-") as temporary:
            folder = (chosen.out or Path(temporary)) / f"{story.number or 0:02d}-{story.slug}"
            folder.mkdir(parents=True, exist_ok=True)
            began = time.monotonic()
            try:
                told = story.tell(Shop(folder, chosen.lang))
            except (CommandFailed, LookupError) as error:
                print(f"{story.slug}: {error}", file=sys.stderr)
                failed += 1
                continue
            show(told, chosen.lang)
            found.append(plain(story, told, time.monotonic() - began))
    if chosen.json is not None:
        before = json.loads(chosen.json.read_text(encoding="utf-8")) if chosen.json.is_file() else []
        kept = {one["slug"]: one for one in [*before, *found]}
        ordered = [kept[story.slug] for story in STORIES.values() if story.slug in kept]
        text = json.dumps(ordered, ensure_ascii=False, indent=2)
        chosen.json.write_text(text + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
