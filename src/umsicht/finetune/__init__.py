"""Fine-tuning on the same guarded trainer, and handing the model over."""

from .base import check_base, evaluation_of
from .exporting import FORMATS, Exported, export
from .outlook import Outlook, outlook
from .stage import StageResult, run_stage
from .subject import Subject, merged, open_subject

__all__ = [
    "FORMATS",
    "Exported",
    "Outlook",
    "StageResult",
    "Subject",
    "check_base",
    "evaluation_of",
    "export",
    "merged",
    "open_subject",
    "outlook",
    "run_stage",
]
