"""Scores on fixed tokens and generation: the loss, bits per byte, text."""

from .batch import generate_batch
from .documents import TokenNats, document_nats, of_logits, of_transformer
from .generate import generate
from .loss import IGNORE, LossSum, cross_entropy_sum, loss_sum, token_nats
from .sampling import SamplingRule
from .sequence import target_logps
from .split import ScoreProtocol, SliceScore, SplitScore, evaluating, score_split

__all__ = [
    "IGNORE",
    "LossSum",
    "SamplingRule",
    "ScoreProtocol",
    "SliceScore",
    "SplitScore",
    "TokenNats",
    "cross_entropy_sum",
    "document_nats",
    "evaluating",
    "generate",
    "generate_batch",
    "loss_sum",
    "of_logits",
    "of_transformer",
    "score_split",
    "target_logps",
    "token_nats",
]
