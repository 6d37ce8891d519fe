"""Samples of text while a model trains: fixed prompts at a frequency, into `samples.jsonl` and the metrics."""

from __future__ import annotations

import time

from umsicht.evaluate.promptset import PromptSet
from umsicht.evaluate.samples import Codec, changed_protocol, draw, looping, summary
from umsicht.recipe.evaluate import SampleSettings
from umsicht.train.hooks import Every, Hook, View


class SampleHook(Hook):
    """Draws the whole grid after a step that is due, and at the end if the last step was not."""

    name = "samples"
    only_writer = True

    def __init__(
        self, tokenizer: Codec, prompts: PromptSet, settings: SampleSettings, *, every: Every
    ) -> None:
        self.every = every
        self._tokenizer = tokenizer
        self._prompts = prompts
        self._settings = settings
        self._drawn_at = -1

    def after_step(self, view: View) -> None:
        began = time.monotonic()
        # the compiled wrapper hides the KV cache; the weights are the same
        model = getattr(view.model, "_orig_mod", view.model)
        drawn = draw(
            model, self._tokenizer, self._prompts, self._settings, step=view.step, tokens=view.tokens
        )
        rows = list(drawn)
        for finding in [*changed_protocol(view.run.samples(), rows), *looping(rows, view.step)]:
            view.run.add_finding({**finding.to_dict(), "step": view.step})
        view.run.add_samples(rows)
        view.log({**summary(rows), "samples/took_s": time.monotonic() - began})
        self._drawn_at = view.step

    def at_end(self, view: View) -> None:
        if self._drawn_at != view.step and view.step > 0:
            self.after_step(view)
