"""From facts and events to one verdict. Each rule stands alone and returns a ruling with the numbers it cites, or None."""

from __future__ import annotations

from collections.abc import Callable

from umsicht.diagnose.rules.broken import both_rise, lost_ground, nonfinite, too_good
from umsicht.diagnose.rules.case import Case, Ruling, ends
from umsicht.diagnose.rules.generalise import domain_divergence, overfitting, slice_rises, val_stalls
from umsicht.diagnose.rules.level import both_fall, both_high, dropped_level, plateau, saw_tooth
from umsicht.diagnose.rules.measure import no_mean_loss, no_updates, validation_changed

__all__ = ["Case", "Ruling", "ends", "lost_ground", "no_updates", "nonfinite", "rules", "slice_rises"]


def rules() -> tuple[Callable[[Case], Ruling | None], ...]:
    """The rules in the order in which they are asked: what makes the rest meaningless comes first."""
    return (
        nonfinite,
        no_updates,
        no_mean_loss,
        too_good,
        validation_changed,
        saw_tooth,
        lost_ground,
        both_rise,
        both_high,
        overfitting,
        domain_divergence,
        val_stalls,
        dropped_level,
        plateau,
        both_fall,
    )
