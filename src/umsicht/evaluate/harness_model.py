"""Our live model as lm-evaluation-harness asks for one: log-likelihoods, rolling log-likelihoods, greedy text.

What stands before a text is decided here and recorded, because tools differ in it silently: `always` puts one end-of-text token
before every context, as before every document in training; `empty-context` only where the context is empty, as the harness's
own loader of Hugging Face models does with a tokenizer that adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F

from umsicht.model import Transformer
from umsicht.score import generate

Prefix = Literal["always", "empty-context"]
BATCH_TOKENS = 8_192
LONGEST_ANSWER = 256


class Codec(Protocol):
    """What is asked of a tokenizer."""

    @property
    def eos_id(self) -> int: ...
    def encode(self, text: str) -> list[int]: ...
    def decode(self, ids: Sequence[int]) -> str: ...


@dataclass(frozen=True)
class Asked:
    """A model in evaluation mode with its tokenizer; the three methods take texts and answer as the harness wants."""

    model: Transformer
    tokenizer: Codec
    window: int
    device: torch.device
    prefix: Prefix = "always"

    def loglikelihood(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, bool]]:
        """For each (context, continuation): log-probability in nats, and whether greedy decoding would write it.

        Contexts are cut on the left. A space at the end of a context is moved to the continuation, and the two are encoded together.
        """
        return self._score([self._encoded(*pair) for pair in pairs])

    def rolling(self, texts: Sequence[str]) -> list[float]:
        """Log-probability of whole texts in nats, each behind one end-of-text token, in windows that share no target; the last
        window is a full one (the harness's own rule)."""
        from lm_eval import utils

        windows: list[tuple[list[int], list[int]]] = []
        owner: list[int] = []
        for number, text in enumerate(texts):
            cut = utils.get_rolling_token_windows(
                token_list=self.tokenizer.encode(text),
                prefix_token=self.tokenizer.eos_id,
                max_seq_len=self.window,
                context_len=1,
            )
            for window in map(utils.make_disjoint_window, cut):
                windows.append((list(window[0]), list(window[1])))
                owner.append(number)
        totals = [0.0] * len(texts)
        for number, (value, _) in zip(owner, self._score(windows), strict=True):
            totals[number] += value
        return totals

    def until(self, context: str, options: dict[str, Any]) -> str:
        """A continuation that ends before the first of `options["until"]`, at the end-of-text token, or where the room ends."""
        stops = options.get("until") or []
        stops = [stops] if isinstance(stops, str) else list(stops)
        room = min(int(options.get("max_gen_toks", LONGEST_ANSWER)), self.window // 2)
        ids = [self.tokenizer.eos_id, *self.tokenizer.encode(context)][-(self.window - room) :]
        temperature = float(options.get("temperature", 0.0)) if options.get("do_sample") else 0.0
        written: list[int] = []
        for token in generate(
            self.model,
            ids,
            max_new_tokens=room,
            temperature=temperature,
            seed=0,
            stop_ids=(self.tokenizer.eos_id,),
        ):
            if token == self.tokenizer.eos_id:
                break
            written.append(token)
            text = self.tokenizer.decode(written)
            if any(stop in text for stop in stops):
                break
        text = self.tokenizer.decode(written)
        return text[: min((text.index(stop) for stop in stops if stop in text), default=len(text))]

    def _encoded(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        kept = context.rstrip()
        whole = self.tokenizer.encode(context + continuation)
        before = self.tokenizer.encode(kept) if kept else []
        prefix = [self.tokenizer.eos_id] if self.prefix == "always" or not before else []
        return [*prefix, *before], whole[len(before) :]

    @torch.no_grad()
    def _score(self, pairs: Sequence[tuple[list[int], list[int]]]) -> list[tuple[float, bool]]:
        """(nats, greedy) of each continuation behind its context, in the order given."""
        rows = [
            ([*before, *after][-(self.window + 1) :], min(len(after), self.window)) for before, after in pairs
        ]
        found: list[tuple[float, bool]] = [(0.0, True)] * len(rows)
        order = sorted(range(len(rows)), key=lambda n: -len(rows[n][0]))
        while order:
            width = len(rows[order[0]][0]) - 1
            some, order = order[: max(1, BATCH_TOKENS // width)], order[max(1, BATCH_TOKENS // width) :]
            inputs = torch.full((len(some), width), self.tokenizer.eos_id)
            for line, number in enumerate(some):
                ids = rows[number][0]
                inputs[line, : len(ids) - 1] = torch.tensor(ids[:-1])
            hidden = self.model.hidden(inputs.to(self.device))
            for line, number in enumerate(some):
                ids, tail = rows[number]
                if not tail:
                    continue
                targets = torch.tensor(ids[-tail:])
                logits = self.model.logits(hidden[line, len(ids) - 1 - tail : len(ids) - 1]).float().cpu()
                nats = F.cross_entropy(logits, targets, reduction="sum")
                # rows beyond the tokenizer's ids are never written
                written = logits[:, : self.model.config.n_tokens].argmax(-1)
                found[number] = (-float(nats), bool((written == targets).all()))
        return found


def as_harness_model(asked: Asked) -> Any:
    """An instance of the harness's `LM` that answers through `asked`. The class is made here, so that importing this module does
    not need the harness."""
    from lm_eval.api.model import LM

    def loglikelihood(self: Any, requests: Sequence[Any]) -> list[tuple[float, bool]]:
        return asked.loglikelihood([request.args for request in requests])

    def loglikelihood_rolling(self: Any, requests: Sequence[Any]) -> list[float]:
        return asked.rolling([request.args[0] for request in requests])

    def generate_until(self: Any, requests: Sequence[Any]) -> list[str]:
        return [asked.until(*request.args) for request in requests]

    methods = (loglikelihood, loglikelihood_rolling, generate_until)
    return type("UmsichtModel", (LM,), {method.__name__: method for method in methods})()
