"""A small SVG writer: charts that need no script, print well, and take their colours from the page's style sheet."""

from umsicht.dashboard.svg.bars import funnel, histogram, spark
from umsicht.dashboard.svg.lines import Line, Mark, line_chart
from umsicht.dashboard.svg.schematic import PATTERNS, schematic
from umsicht.dashboard.svg.tree import tree

__all__ = ["PATTERNS", "Line", "Mark", "funnel", "histogram", "line_chart", "schematic", "spark", "tree"]
