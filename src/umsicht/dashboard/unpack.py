"""The text behind a step: its batch worked out again from the run's records, decoded, in a process of its own.

The order of data is arithmetic, so nothing was stored at training time. Only this process loads the token room.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from umsicht.dashboard.facts import Json, RunFacts, mapping
from umsicht.dashboard.helper import ask
from umsicht.findings import UserError

MOST_ROWS = 64
MOST_CHARACTERS = 600
TIMEOUT_S = 60


def unpack(run_folder: Path, step: int) -> tuple[list[Json], str]:
    """Rows of the batch of `step` (as logged, counted from 1) and a problem code, empty where all went well."""
    answer = ask("umsicht.dashboard.unpack", {"run": str(run_folder), "step": step}, TIMEOUT_S)
    rows = answer.get("rows")
    return (rows if isinstance(rows, list) else []), str(answer["problem"])


def rows_of(run_folder: Path, step: int) -> list[Json]:
    """Each row's text, and the documents that it was cut from. Raises KeyError, OSError or UserError where records are missing."""
    facts = RunFacts.open(run_folder)
    recipe, tokens = facts.recipe, import_module("umsicht.tokens")
    data_artifact, tokenizer_artifact = facts.artifact("tokens"), facts.artifact("tokenizer")
    if data_artifact is None or tokenizer_artifact is None:
        raise KeyError("tokens")
    data = tokens.TokenData.open(data_artifact[0])
    settings = import_module("umsicht.recipe.tokens").TokensSettings.model_validate(
        mapping(recipe.get("tokens"))
    )
    source = tokens.PackedSource(
        data.train,
        seq_len=recipe["model"]["seq_len"],
        batch_tokens=recipe["train"]["global_batch_tokens"],
        seed=settings.seed,
        packing=settings.packing,
        mix=settings.mix,
        total_steps=facts.manifest.get("planned_steps"),
        growth=_growth(recipe["train"], facts.manifest.get("planned_steps")),
        eos_id=data.eos_id,
    )
    tokenizer = import_module("umsicht.tokenizer").Tokenizer.load(tokenizer_artifact[0])
    batch = source.batch(step - 1)
    return [_row(number, batch, data, tokenizer) for number in range(min(MOST_ROWS, batch.inputs.shape[0]))]


def _growth(recipe: Json, steps: Any) -> Any:
    """How the run's batch grows, where it does."""
    phases = import_module("umsicht.recipe.train").PhaseSettings.model_validate(mapping(recipe.get("phases")))
    return import_module("umsicht.train.budget").growth_of(phases, steps)


def _row(number: int, batch: Any, data: Any, tokenizer: Any) -> Json:
    ids = batch.inputs[number].tolist()
    documents = list(dict.fromkeys(batch.document_ids[number].tolist()))
    text = tokenizer.decode([token for token in ids if 0 <= token < tokenizer.n_tokens])
    known = [int(document) for document in documents if 0 <= int(document) < data.train.n_documents]
    slices = list(dict.fromkeys(data.train.slice_of(document) for document in known))
    distinct = len(set(ids)) / max(1, len(ids))
    return {
        "number": number + 1,
        "text": text[:MOST_CHARACTERS],
        "cut": max(0, len(text) - MOST_CHARACTERS),
        "documents": len(documents),
        "slices": slices[:6],
        "distinct": distinct,
    }


def main() -> None:
    """Answer the question on standard input as JSON."""
    question = json.load(sys.stdin)
    try:
        answer = {"rows": rows_of(Path(question["run"]), int(question["step"])), "problem": ""}
    except (KeyError, OSError, UserError, ImportError, ValueError, AttributeError, TypeError):
        answer = {"rows": [], "problem": "no_tokens"}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
