"""Ratings by people: blind rounds, agreement, strengths, and a verdict only where the answers carry one. No torch."""

from umsicht.ratings.criteria import Criterion, Sheet, default
from umsicht.ratings.exchange import export, read_back
from umsicht.ratings.intervals import Plan, pairs_needed, plan
from umsicht.ratings.layout import Design
from umsicht.ratings.metrics import of_round
from umsicht.ratings.outputs import Matched, Output, match, of_file, of_run
from umsicht.ratings.round import Item, Round, create
from umsicht.ratings.verdict import Result, Rules, score

__all__ = [
    "Criterion",
    "Design",
    "Item",
    "Matched",
    "Output",
    "Plan",
    "Result",
    "Round",
    "Rules",
    "Sheet",
    "create",
    "default",
    "export",
    "match",
    "of_file",
    "of_round",
    "of_run",
    "pairs_needed",
    "plan",
    "read_back",
    "score",
]
