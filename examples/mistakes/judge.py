"""Mistakes 12 and 13: what is thought of the model."""

from __future__ import annotations

import json

from shop import Shop, Story, Told, Words, missing, pick

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
    if not missing(after["findings"], finding.id):
        raise LookupError(f"{finding.id} is still there")
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


STORIES = (
    Story(12, "unread", Words("Nobody reads what it writes", "Niemand liest, was es schreibt"), unread),
    Story(
        13,
        "poor-base",
        Words("Fine-tuning a poor base", "Ein schlechtes Basismodell nachtrainieren"),
        poor_base,
    ),
)
