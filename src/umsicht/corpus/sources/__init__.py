"""Where text comes from: planning of units of work, and the readers that turn a unit into raw documents."""

from umsicht.corpus.sources.plan import SourcePlan, plan_sources
from umsicht.corpus.sources.read import read_unit
from umsicht.corpus.sources.unit import Broken, Column, Raw, SourceInfo, Unit

__all__ = ["Broken", "Column", "Raw", "SourceInfo", "SourcePlan", "Unit", "plan_sources", "read_unit"]
