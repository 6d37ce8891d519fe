"""Faults of the catalogue without a row of their own, and why."""

from __future__ import annotations

ABSENT = {
    "TX4": "needs a cased/uncased vocabulary pair; word-level tokenizers are not built here",
    "TX13": "chat template: rows come with fine-tuning",
    "DA11": "this loader has no worker processes; DA13 and DA14 hold the same ledger",
    "DA16": "no FIM transform in the product yet",
    "TG9": "prompts are fine-tuning rows",
    "TG10": "prompts are fine-tuning rows",
    "TG14": "needs ranks",
    "MO6": "left padding only comes with foreign models (tests/guard)",
    "MO7": "in the monitor cases",
    "MO8": "in the monitor cases",
    "MO17": "no autocast on this path",
    "OP6": "in the foreign-model tests (tests/guard)",
    "OP7": "in the foreign-model tests (tests/guard)",
    "OP10": "needs ranks",
    "RE9": "one folder is renamed as a whole: RE8 holds it",
    "RE11": "MO16 holds it",
    "RE12": "best values are compared by the train room's own tests",
    "DI1": "needs ranks",
    "DI2": "needs ranks",
    "DI3": "needs ranks or hardware",
    "DI4": "needs ranks",
    "DI5": "the loop itself refuses: tests/guard",
    "EV4": "scorer self-tests belong to the evaluate room",
    "EV5": "fine-tuning",
    "PT1": "fine-tuning",
    "PT2": "fine-tuning",
    "PT3": "fine-tuning",
    "PT4": "fine-tuning",
}
