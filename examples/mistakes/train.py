"""Mistakes 8 to 10 and the two more: the training and what is read out of its curves."""

from __future__ import annotations

import json

from shop import HERE, Shop, Story, Told, Words, pick

BASE = """name: base
preset: tiny
corpus:
  sources: [{name: starter, kind: starter, parts: [stdlib], max_bytes: 400000}]
check: {stability_steps: 0, overfit_one_batch: false}
evaluate: {samples: {seeds: [0], temperatures: [0.8], max_new_tokens: 12, count: 5}}
"""
"""A run of seconds. The two rehearsals are left out: the stories show other checks."""


def target_shift(shop: Shop) -> Told:
    """A loss that shifts what the data have shifted already, in somebody else's loop."""
    loop = str(HERE / "own_loop.py")
    shop.say("$ python own_loop.py check shifted")
    seen = json.loads(shop.process(loop, "check", "shifted", expect=(0,)).stdout)
    finding = pick(seen["findings"], "TARGET-SHIFT/offset")
    scores = []
    for how in ("shifted", "right"):
        shop.say(f"$ python own_loop.py train {how}")
        scores.append(json.loads(shop.process(loop, "train", how, expect=(0,)).stdout)["bits_per_byte"])
    return Told(
        finding,
        None,
        Words(
            "the shift stays in the data; the loss no longer shifts",
            "der Versatz bleibt bei den Daten; der Loss verschiebt nicht mehr",
        ),
        Words(
            "bits per byte of the next byte, after 250 steps",
            "Bits pro Byte fürs nächste Byte, nach 250 Schritten",
        ),
        scores[0],
        scores[1],
    )


def never_resumed(shop: Shop) -> Told:
    """A resume that forgets the optimizer; nobody ever tried it."""
    shop.write("base.yaml", BASE)
    only = ("base.yaml", "--out", "work", "--only", "resume", "--json")
    shop.say("$ python weights_only.py check " + " ".join(only))
    done = shop.process(str(HERE / "weights_only.py"), "check", *only, expect=(1,))
    stopping = [one for one in json.loads(done.stdout)["findings"] if one["grade"] == "stop"]
    finding = pick(stopping, stopping[0]["id"])
    after = shop.json("check", *only[:-1])
    if after["findings"]:
        raise LookupError("the resume still differs")
    return Told(
        finding,
        None,
        Words("the optimizer's state is loaded as well", "auch der Zustand des Optimierers wird geladen"),
        Words(
            "of 9 rehearsed steps that are equal to the last bit",
            "von 9 geprobten Schritten, die aufs letzte Bit gleich sind",
        ),
        float(finding.numbers["step"]) - 1,
        9,
        "{:.0f}",
    )


EVEN = "{de: 0.4, en: 0.3, python: 0.3}"


def one_loss(shop: Shop) -> Told:
    """German falls out of the mix half way; the mean over all text goes on falling."""
    from umsicht.diagnose import diagnose
    from umsicht.diagnose.findings import findings_of

    def recipe(late: str) -> str:
        return f"""name: one-loss
preset: tiny
corpus:
  sources: [{{name: starter, kind: starter, parts: [wiktionary, stdlib], max_bytes: 700000}}]
  validation: {{min_bytes: 55000, max_bytes: 60000, largest_share: 0.2}}
tokens: {{mix: {{by: language, phases: [{{until: 0.4, shares: {EVEN}}}, {{until: 1, shares: {late}}}]}}}}
train: {{budget: {{steps: 400}}, validation: {{count: 10, slice_bytes: 15000}}, checkpoint: {{every_steps: 400}}}}
check: {{stability_steps: 0, overfit_one_batch: false}}
"""

    def slice_bpb(project: str) -> float:
        return float(shop.newest_run(project).metrics().last("val/dictionary.de/bpb") or 0.0)

    shop.write("one-loss.yaml", recipe("{en: 0.5, python: 0.5}"))
    shop.umsicht("train", "one-loss.yaml", "--out", "work")
    shop.umsicht("diagnose", "work", expect=(0, 1))
    before = slice_bpb("work")
    judged = findings_of(diagnose(shop.newest_run("work").folder))
    finding = pick([one.to_dict() for one in judged], "CURVE/domain-divergence")
    shop.write("one-loss.yaml", recipe(EVEN))
    shop.umsicht("train", "one-loss.yaml", "--out", "mended")
    shop.umsicht("diagnose", "mended", expect=(0, 1))
    if any(one.id == finding.id for one in findings_of(diagnose(shop.newest_run("mended").folder))):
        raise LookupError(f"{finding.id} is still there")
    return Told(
        finding,
        None,
        Words("German keeps its share of the mix", "Deutsch behält seinen Anteil an der Mischung"),
        Words("bits per byte of German at the end", "Bits pro Byte im Deutschen am Ende"),
        before,
        slice_bpb("mended"),
    )


def two_changes(shop: Shop) -> Told:
    """A better result after two changes at once, seen with one seed."""
    shop.write("base.yaml", BASE)
    shop.umsicht("train", "base.yaml", "--out", "work")
    base = shop.newest_run("work").name
    changes = ("--set", "train.optimizer.matrix_rate=0.03", "--set", "model.n_layers=2")
    message = shop.refused("experiment", "new", "--from", f"work/runs/{base}", *changes)
    shop.umsicht("experiment", "new", "--from", f"work/runs/{base}", *changes[:2], "--name", "one-change")
    for seed in (0, 1, 2):
        if seed:
            shop.umsicht("train", "base.yaml", "--out", "work", "--set", f"seed={seed}")
        shop.umsicht("train", "work/experiments/one-change.yaml", "--out", "work", "--set", f"seed={seed}")
    groups: dict[bool, list[str]] = {False: [], True: []}
    for run in reversed(shop.newest_runs("work")):
        changed = run.manifest["recipe"]["train"]["optimizer"]["matrix_rate"] == 0.03
        groups[changed].append(f"work/runs/{run.name}")
    first, second = groups[False], groups[True]
    alone = shop.json("compare", first[0], second[0], expect=(0, 1))
    together = shop.json("compare", *first, *second, expect=(0, 1))
    return Told(
        None,
        message,
        Words("one change, three seeds each", "eine Änderung, je drei Seeds"),
        Words("comparisons with an interval", "Vergleiche mit einem Intervall"),
        float(sum(one["difference"]["low"] is not None for one in alone["contests"])),
        float(sum(one["difference"]["low"] is not None for one in together["contests"])),
        "{:.0f}",
    )


RATE = 0.32


def unstable(shop: Shop) -> Told:
    """A learning rate that AdamW does not bear; the rehearsal that would have said so is switched off."""

    def recipe(rate: float, rehearsed: int) -> str:
        settings = BASE.replace("stability_steps: 0", f"stability_steps: {rehearsed}")
        rates = ", ".join(f"{role}_rate: {rate:g}" for role in ("matrix", "embedding", "head"))
        return settings + f"train: {{optimizer: {{kind: adamw, {rates}}}}}\n"

    def trained() -> float:
        shop.umsicht("train", "base.yaml", "--out", "work", expect=(0, 1, 3))
        last = shop.newest_run("work").metrics().last("val/all/bpb")
        if last is None:
            raise LookupError("the run ended before its first validation")
        return float(last)

    only = ("base.yaml", "--out", "work", "--only", "stability")
    shop.write("base.yaml", recipe(RATE, 0))
    before = trained()
    shop.write("base.yaml", recipe(RATE, 50))
    finding = pick(shop.json("check", *only, expect=(0, 1))["findings"], "NUMERIC/unstable")
    rate = RATE
    for _ in range(10):
        rate /= 2
        shop.write("base.yaml", recipe(rate, 50))
        if not shop.json("check", *only, expect=(0, 1))["findings"]:
            break
    else:
        raise LookupError(f"{finding.id} is still there at {rate:g}")
    return Told(
        finding,
        None,
        Words(
            f"the rate is halved, and nothing else, until the rehearsal holds: {rate:g} instead of {RATE:g}",
            f"die Lernrate wird halbiert, sonst nichts, bis die Probe hält: {rate:g} statt {RATE:g}".replace(
                ".", ","
            ),
        ),
        Words(
            "bits per byte on held-out text, after 40 steps",
            "Bits pro Byte auf zurückgehaltenem Text, nach 40 Schritten",
        ),
        before,
        trained(),
    )


STORIES = (
    Story(
        8,
        "one-loss",
        Words("One global loss that hides a failing domain", "Ein Gesamt-Loss, der eine Domäne verdeckt"),
        one_loss,
    ),
    Story(
        9,
        "never-resumed",
        Words(
            "Checkpoints missing, incomplete or never resumed",
            "Checkpoints, die fehlen, unvollständig sind oder nie fortgesetzt wurden",
        ),
        never_resumed,
    ),
    Story(
        10,
        "unstable",
        Words("Numerical instability ignored", "Numerische Instabilität übergangen"),
        unstable,
    ),
    Story(
        None, "target-shift", Words("The target shifted twice", "Das Ziel zweimal verschoben"), target_shift
    ),
    Story(
        None, "two-changes", Words("Several changes, one seed", "Mehrere Änderungen, ein Seed"), two_changes
    ),
)
