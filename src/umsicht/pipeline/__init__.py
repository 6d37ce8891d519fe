"""The pipeline: composes the stages, decides at the gates, hangs monitors and samplers on the loop.

Only the walk itself is imported here, so that a mistake in a recipe is told before torch is loaded; `pipeline.run` walks.
"""

from umsicht.pipeline.walk import GateClosedError, Walk, parse_waivers

__all__ = ["GateClosedError", "Walk", "parse_waivers"]
