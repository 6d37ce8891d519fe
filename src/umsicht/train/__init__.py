"""Training: the loss contract, optimizers, schedules, checkpoints, the loop and its hooks."""

from umsicht.train.alone import ALONE
from umsicht.train.checkpoints import Retention, Snapshot, best, find_latest, latest, load, save
from umsicht.train.hooks import CallHook, Every, Hook, StopRun, View
from umsicht.train.loop import Outcome, Trainer
from umsicht.train.objective import LanguageModelling, LossSums, Objective
from umsicht.train.optimizer import Optimizer
from umsicht.train.reduction import Reduction
from umsicht.train.schedule import Schedule
from umsicht.train.validation import Validation

__all__ = [
    "ALONE",
    "CallHook",
    "Every",
    "Hook",
    "LanguageModelling",
    "LossSums",
    "Objective",
    "Optimizer",
    "Outcome",
    "Reduction",
    "Retention",
    "Schedule",
    "Snapshot",
    "StopRun",
    "Trainer",
    "Validation",
    "View",
    "best",
    "find_latest",
    "latest",
    "load",
    "save",
]
