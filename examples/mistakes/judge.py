"""Mistakes 11 to 13: what is thought of the model, and what is known about it afterwards."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from shop import Shop, Story, Told, Words, gone, pick

from train import BASE

ANSWERS = (
    ("What does a context manager do?", "It sets something up before a block and tidies up after it."),
    ("What is a generator?", "A function that gives its values one at a time."),
    ("What does zip do?", "It walks through several iterables side by side."),
    ("What is a dictionary?", "A mapping from keys to values."),
    ("What raises KeyError?", "Asking a dictionary for a key that it does not have."),
    ("What is a module?", "A file of code that other code can import."),
    ("What does len return?", "The number of items in a container."),
    ("What is a tuple?", "A sequence that cannot be changed."),
)


def unread(shop: Shop) -> Told:
    """Numbers at every evaluation, and nobody has read a line of what the model writes."""
    shop.write("base.yaml", BASE)
    shop.umsicht("train", "base.yaml", "--out", "work")
    seen = shop.json("evaluate", "work", expect=(0, 1))
    finding = pick(seen["findings"], "SAMPLE/unread")
    unread_steps = [batch["step"] for batch in shop.json("read", "work")["unread"]]
    note = "words, no sentences; repeats itself after ten tokens"
    shop.umsicht("read", "work", "--step", str(unread_steps[-1]), "--note", note)
    after = shop.json("evaluate", "work", expect=(0, 1))
    gone(after["findings"], finding.id)
    return Told(
        finding,
        None,
        Words(
            "somebody reads the newest outputs and notes what they saw",
            "jemand liest die neuesten Proben und notiert, was zu sehen war",
        ),
        Words(
            "evaluations in a row whose outputs nobody has read",
            "Auswertungen in Folge, deren Proben niemand gelesen hat",
        ),
        float(finding.numbers["evaluations"]),
        0,
        "{:.0f}",
    )


def poor_base(shop: Shop) -> Told:
    """A base of forty steps that is to be saved by fine-tuning."""
    sums = [(f"What is {n} and one?", f"{n} and one is {n + 1}.") for n in range(32)]
    messages = (
        [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
        for asked, answer in (*ANSWERS, *sums)
    )
    shop.rows("chat.jsonl", ({"messages": pair} for pair in messages))

    def recipe(steps: int) -> str:
        return BASE + f"train: {{budget: {{steps: {steps}}}, checkpoint: {{every_steps: {steps}}}}}\n"

    def evaluated(project: str) -> int:
        result = shop.json("evaluate", project, expect=(0, 1))
        return len(result["beats"]["xz"])

    shop.write("base.yaml", recipe(40))
    shop.umsicht("train", "base.yaml", "--out", "work")
    before = evaluated("work")
    shop.refused("finetune", "work", "--data", "chat.jsonl")
    finding = pick(shop.newest_run("work").findings(), "FINETUNE/base-poor")
    shop.write("base.yaml", recipe(900))
    shop.umsicht("train", "base.yaml", "--out", "longer")
    after = evaluated("longer")
    done = json.loads(
        shop.umsicht("finetune", "longer", "--data", "chat.jsonl", "--set", "epochs=2", "--json")
    )
    if done["stages"][-1]["reason"] not in ("finished", "early-stopped"):
        raise LookupError("the fine-tuning did not end")
    return Told(
        finding,
        None,
        Words(
            "the base is trained longer (900 steps instead of 40), then fine-tuned",
            "das Basismodell wird länger trainiert (900 statt 40 Schritte), dann nachtrainiert",
        ),
        Words("slices on which the base beats xz", "Teilmengen, auf denen das Basismodell xz schlägt"),
        before,
        after,
        "{:.0f}",
    )


QUESTIONS = 4
"""Which run, which recipe, which text, and whether the bytes are those that were written."""


def unrecorded(shop: Shop) -> Told:
    """Weights that are passed on without the record of their run, with one byte that changed on the way."""
    shop.write("base.yaml", BASE)
    shop.umsicht("train", "base.yaml", "--out", "work")
    newest = max((shop.newest_run("work").folder / "checkpoints").glob("step-*"))
    for name in ("bare", "whole"):
        (shop.folder / name).mkdir(exist_ok=True)
        for path in sorted(newest.iterdir()):
            if name == "whole" or path.name in ("model.safetensors", "config.json"):
                shutil.copy2(path, shop.folder / name)
        shop.say(
            f"$ cp {newest.relative_to(shop.folder)}/{'*' if name == 'whole' else 'model* config*'} {name}/"
        )
        _flip(shop.folder / name / "model.safetensors")
    message = shop.refused("lineage", "bare")
    checked = [shop.umsicht("--lang", lang, "verify", "bare").strip() for lang in ("en", "de")]
    before, after = (_answered(shop, name) for name in ("bare", "whole"))
    return Told(
        None,
        Words(
            *(
                f"{refused.splitlines()[0].partition(chr(32))[2]} {said}"
                for refused, said in zip((message.en, message.de), checked, strict=True)
            )
        ),
        Words(
            "the checkpoint is passed on with its manifest and the run with its project; `verify` then names the file with the changed byte",
            "der Checkpoint wird mit seinem Manifest weitergegeben, der Lauf mit seinem Projekt; `verify` nennt dann die Datei mit dem geänderten Byte",
        ),
        Words(
            f"of {QUESTIONS} questions that are answered: which run, which recipe, which text, are the bytes unchanged",
            f"von {QUESTIONS} Fragen, die beantwortet werden: welcher Lauf, welches Rezept, welcher Text, sind die Bytes unverändert",
        ),
        before,
        after,
        "{:.0f}",
    )


def _flip(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)


def _answered(shop: Shop, folder: str) -> int:
    """How many of the four questions the folder and the project answer."""
    checked = shop.json("verify", folder, expect=(0, 1))
    if checked and not any(one["damages"] for one in checked):
        raise LookupError("the changed byte was not noticed")
    manifest = shop.folder / folder / "manifest.json"
    run = json.loads(manifest.read_text(encoding="utf-8"))["run"] if manifest.is_file() else None
    if run is None:
        return len(checked)
    root = shop.json("lineage", f"work/runs/{run}")
    sources = [one for one in _below(root) if one["kind"] == "source" and one["id"]]
    recipe = shop.newest_run("work").manifest["recipe"]
    return len(checked) + (root["name"] == run) + bool(recipe) + bool(sources)


def _below(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(one for parent in node["parents"] for one in _below(parent))]


STORIES = (
    Story(
        11,
        "poor-base",
        Words("Fine-tuning to repair a poor base", "Nachtraining soll ein schlechtes Basismodell retten"),
        poor_base,
    ),
    Story(12, "unread", Words("Only automatic metrics", "Nur automatische Kennzahlen"), unread),
    Story(13, "unrecorded", Words("Nothing recorded", "Nichts aufgezeichnet"), unrecorded),
)
