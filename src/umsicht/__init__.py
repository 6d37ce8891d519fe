"""Umsicht trains language models from scratch and finds the judgement errors that ruin runs before they cost compute.

Importing this package imports nothing heavy; the rooms below are imported by name (`umsicht.guard`, `umsicht.diagnose`, …).
"""

__version__ = "0.1.0"
