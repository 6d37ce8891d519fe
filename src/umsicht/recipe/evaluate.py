"""Recipe section `evaluate`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from umsicht.recipe.base import Section


class BaselineSettings(Section):
    """What the model is compared with: `xz -9` and an interpolated n-gram model on the same validation bytes."""

    bytes_per_slice: int = Field(default=200_000, ge=1_000)
    """Raw UTF-8 bytes of validation text that are scored in each slice, at most."""

    context_bytes: int = Field(default=64 << 20, ge=0)
    """Training text that xz may see first, at most, spread evenly over the slices; its window holds 64 MiB."""

    ngram_order: int = Field(default=5, ge=1, le=8)
    """Longest n-gram of the counted model (5 means four tokens of context)."""

    ngram_tokens: int = Field(default=8_000_000, ge=1_000)
    """Training tokens that the n-gram model counts, at most; the documents are chosen by their hash."""


class SampleSettings(Section):
    """Fixed prompts, fixed seeds, a small grid of temperatures: the same at every evaluation."""

    prompts: str = "default"
    """`default`, or the path of a JSON file like the built-in one. A changed prompt set is a new protocol and is flagged."""

    languages: tuple[str, ...] = ()
    """Languages whose prompts are used; empty means those of the corpus."""

    seeds: tuple[int, ...] = (0,)
    """One output for each seed."""

    temperatures: tuple[Annotated[float, Field(ge=0)], ...] = (0.0, 0.8)
    """0 is greedy: the most probable token each time."""

    top_p: float = Field(default=0.95, gt=0, le=1)
    """Nucleus sampling: the smallest set of tokens with this much probability."""

    count: int = Field(default=6, ge=0)
    """How often they are drawn during a run, evenly spaced, the last step included. 0: only when asked for."""

    max_new_tokens: int = Field(default=64, ge=1)
    """Length of an output, at most."""


class EvaluateSettings(Section):
    """Held-out scores beside baselines, and samples of text."""

    baselines: BaselineSettings = BaselineSettings()
    samples: SampleSettings = SampleSettings()

    window: int | None = Field(default=None, ge=2)
    """Tokens that the model sees at once when it is scored. None: the length it was trained on."""

    stride: int | None = Field(default=None, ge=1)
    """Tokens that each further window adds to the score. None: half a window."""

    remind_after: int = Field(default=4, ge=1)
    """Evaluations without anybody having read their outputs, after which a finding reminds."""
