"""Text ↔ ids: training, encoding, the chat layout, and what a vocabulary costs in each language."""

from umsicht.tokenizer.chat import render
from umsicht.tokenizer.core import Tokenizer
from umsicht.tokenizer.sample import Sample
from umsicht.tokenizer.train import train

__all__ = ["Sample", "Tokenizer", "render", "train"]
