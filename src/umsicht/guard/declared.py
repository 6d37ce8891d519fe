"""What somebody says about their run: checks compare what they find with it, and stay quiet about what was declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Normaliser = Literal["none", "nfc", "nfkc", "lower", "strip"]


@dataclass(frozen=True)
class Declared:
    """Declarations. `None` means "not said": a check then reports only what is wrong under any reading.

    `freshly_initialised`: the weights were never trained. `document_mask`: attention stays inside a document. `epochs`: how often a
    sample may be used. `shares`: slice to share of the tokens trained on. `ordered`: a curriculum that is ordered on purpose. `bos`,
    `eos`: exactly one a document. `loss_on`: `all` tokens or only `responses`. `loss_mean_over`: what the loss is divided by. `frozen`:
    parameter name prefixes that must not move. `no_decay`: parameters of one dimension are not decayed. `clip`: largest gradient norm.
    `attention_scale`: factor on q·k. `parameter_dtype`, `state_dtype`: e.g. "float32". `dropout_in_eval`: it stays on where scores are
    taken, on purpose. `lossy`: what the tokenizer may change. `overlap_allowed`: share of the validation texts that may stand in the
    training text. `init_loss_gap`: nats between the loss of fresh weights and ln(vocabulary) that are no fault.
    """

    freshly_initialised: bool | None = None
    document_mask: bool | None = None
    epochs: float | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    ordered: bool = False
    bos: bool | None = None
    eos: bool | None = None
    loss_on: Literal["all", "responses"] | None = None
    loss_mean_over: Literal["tokens", "rows", "sum"] = "tokens"
    frozen: tuple[str, ...] = ()
    no_decay: bool | None = None
    clip: float | None = None
    attention_scale: float | None = None
    parameter_dtype: str | None = None
    state_dtype: str | None = None
    dropout_in_eval: bool = False
    lossy: Normaliser = "none"
    overlap_allowed: float = 0.0
    init_loss_gap: float | None = None
