"""Scores on fixed tokens and generation: the loss, bits per byte, text."""

from .loss import IGNORE, LossSum, cross_entropy_sum, loss_sum, token_nats

__all__ = ["IGNORE", "LossSum", "cross_entropy_sum", "loss_sum", "token_nats"]
