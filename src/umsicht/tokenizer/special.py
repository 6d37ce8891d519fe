"""Special tokens: one owner for boundary tokens and chat tokens.

They stand after the last merge, so that a merge's id is its rank and adding reserved tokens moves nothing.
"""

from __future__ import annotations

EOS = "<|endoftext|>"
"""Ends every document."""
PAD = "<|pad|>"
"""Fills rows; never a target."""
IM_START = "<|im_start|>"
"""Begins a chat message; the role follows."""
IM_END = "<|im_end|>"
"""Ends a chat message."""

NAMED = (EOS, PAD, IM_START, IM_END)


def special_names(reserved: int) -> tuple[str, ...]:
    """All special tokens in the order of their ids, `reserved` free ones last."""
    return (*NAMED, *(f"<|reserved_{number}|>" for number in range(reserved)))
