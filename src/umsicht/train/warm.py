"""Continued pretraining: start from weights that were trained before, with the tokenizer they were trained with.

Only weights are taken: the optimizer, the schedule and the cursor begin anew, because the data and the plan are new. A share of the old
text in the mix (`tokens.mix`) keeps what was learned; which share is a choice the recipe states.
"""

from __future__ import annotations

from pathlib import Path

from umsicht.findings import UserError
from umsicht.model import ModelConfig, Transformer, load_weights
from umsicht.record.manifest import read_manifest
from umsicht.words import t

# What may differ between the old model and the recipe: these act in training only, or say how long rows are.
FREE = ("dropout_embedding", "dropout_attention", "dropout_residual", "embedding_std", "seq_len")


def start_from(folder: Path, config: ModelConfig, tokenizer_digest: str = "") -> Transformer:
    """The weights in `folder` (a checkpoint, or a model imported before) in a model of `config`.

    Raises UserError where sizes or vocabulary differ, naming the first that does, or where the old run used another tokenizer.
    """
    old = load_weights(folder)
    for name, value in config.to_dict().items():
        found = old.config.to_dict().get(name)
        if name not in FREE and found != value:
            raise UserError(
                t("train.start_differs", name=name, found=found, wanted=value),
                where=str(folder),
                why=t("train.start_differs_why"),
                fix=t("train.start_differs_fix", name=name, found=found),
            )
    run = read_manifest(folder.parent.parent) or {}
    known = run.get("tokenizer_digest")
    if known and tokenizer_digest and known != tokenizer_digest:
        raise UserError(
            t("train.start_tokenizer"),
            where=str(folder),
            why=t("train.start_tokenizer_why"),
            fix=t("train.start_tokenizer_fix"),
        )
    model = Transformer(config)
    model.load_state_dict(old.state_dict())
    return model
