"""How a round is laid out for one rater: sides balanced, an own order, repeats and controls hidden in it."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from umsicht.ratings.outputs import Matched, Output, spoil

Kind = Literal["pairwise", "scores"]
Material = Matched | Output


@dataclass(frozen=True)
class Design:
    """How a round is laid out. Shares are of the regular items; there are at least `min_controls` controls a rater."""

    kind: Kind = "pairwise"
    raters: tuple[str, ...] = ("rater-1", "rater-2")
    repeats: float = 0.10
    controls: float = 0.05
    min_controls: int = 4
    seed: int | None = None
    """None draws one; it stands in the key, never in what raters see."""


@dataclass(frozen=True)
class Slot:
    """One line of a rater's file with its secret."""

    id: str
    prompt: str
    texts: tuple[str, ...]
    systems: tuple[str, ...]
    unit: str
    role: Literal["regular", "repeat", "control"]
    better: str = ""  # of a control: left or right

    def shown(self) -> dict[str, str]:
        """What the rater gets."""
        row = {"item": self.id, "prompt": self.prompt, "left": self.texts[0]}
        return {**row, "right": self.texts[1]} if len(self.texts) > 1 else row

    def secret(self) -> dict[str, Any]:
        """What the key says."""
        plain: dict[str, Any] = {"unit": self.unit, "role": self.role, "systems": list(self.systems)}
        return {**plain, "better": self.better} if self.role == "control" else plain


def lay_out(material: Sequence[Material], design: Design, seed: int, rater: int) -> list[Slot]:
    rng = random.Random(f"{seed}.{rater}")
    regular = _regular(material, rng, seed, rater)
    n_repeats = round(design.repeats * len(regular))
    n_controls = max(design.min_controls, round(design.controls * len(regular))) if design.controls > 0 else 0
    rng.shuffle(regular)
    controls = [_control(material, rng, seed, rater, i) for i in range(n_controls)]
    line: list[Slot] = regular[:]
    for control in controls:
        line.insert(rng.randrange(len(line) + 1), control)
    for slot in rng.sample(regular, n_repeats):
        # far enough behind the first showing not to be remembered, where the round is long enough
        first = line.index(slot)
        earliest = min(len(line), first + max(2, len(line) // 4))
        line.insert(rng.randint(earliest, len(line)), _again(slot, seed, rater))
    return line


def _regular(material: Sequence[Material], rng: random.Random, seed: int, rater: int) -> list[Slot]:
    # exactly half of the pairs have their first system on the left (one more where the number is odd)
    swapped = [bool(i % 2) for i in range(len(material))]
    rng.shuffle(swapped)
    slots = []
    for number, (one, swap) in enumerate(zip(material, swapped, strict=True)):
        identity = _item_id(seed, rater, f"regular.{number}")
        pair: tuple[Output, ...]
        if isinstance(one, Matched):
            pair = (one.second, one.first) if swap else (one.first, one.second)
            prompt = one.first.prompt
            unit = f"{one.first.prompt_id}|{one.first.system}|{one.second.system}"
        else:
            pair, prompt, unit = (one,), one.prompt, f"{one.prompt_id}|{one.system}"
        texts, systems = tuple(o.text for o in pair), tuple(o.system for o in pair)
        slots.append(Slot(identity, prompt, texts, systems, unit, "regular"))
    return slots


def _again(slot: Slot, seed: int, rater: int) -> Slot:
    identity = _item_id(seed, rater, f"repeat.{slot.id}")
    return Slot(identity, slot.prompt, slot.texts[::-1], slot.systems[::-1], slot.unit, "repeat")


def _control(material: Sequence[Material], rng: random.Random, seed: int, rater: int, number: int) -> Slot:
    one = rng.choice(material)
    source = max((one.first, one.second), key=lambda o: len(o.text)) if isinstance(one, Matched) else one
    identity = _item_id(seed, rater, f"control.{number}")
    spoilt = spoil(source.text, identity)
    if not isinstance(one, Matched):
        return Slot(identity, source.prompt, (spoilt,), ("control",), f"control.{number}", "control", "low")
    left = number % 2 == 0
    texts = (source.text, spoilt) if left else (spoilt, source.text)
    return Slot(
        identity,
        source.prompt,
        texts,
        ("control", "control"),
        f"control.{number}",
        "control",
        "left" if left else "right",
    )


def _item_id(seed: int, rater: int, what: str) -> str:
    return hashlib.sha256(f"{seed}.{rater}.{what}".encode()).hexdigest()[:10]
