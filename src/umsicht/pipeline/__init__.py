"""The pipeline: composes the stages, decides at the gates, hangs monitors and samplers on the loop."""

from umsicht.pipeline.run import Finished, finish, prepare, run, train_run
from umsicht.pipeline.walk import GateClosedError, Walk, parse_waivers

__all__ = ["Finished", "GateClosedError", "Walk", "finish", "parse_waivers", "prepare", "run", "train_run"]
