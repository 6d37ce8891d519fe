"""Faults of the catalogue without a row of their own, and why."""

from __future__ import annotations

ABSENT = {
    "DA16": "the product has no fill-in-the-middle transform to break",
    "MO17": "half precision is not used on this processor (bf16 is emulated, 90 times slower)",
    "RE9": "a checkpoint is one folder renamed as a whole; RE8 kills inside its writing",
    "RE11": "weights are matched by name and storage; MO16 breaks that",
    "EV4": "scoring of task answers is tried in the evaluate room's own tests",
}
