"""`umsicht diagnose RUN --samples`: why a model writes nonsense, cheapest reasons first."""

from __future__ import annotations

from typing import Any

from umsicht.cli.output import console, print_finding, print_json
from umsicht.cli.projects import find_run
from umsicht.record.run import Run
from umsicht.words import t

LOOKED_AT = 100
"""Training documents whose end is looked at."""


def trouble(run: str, prompt: str | None, temperature: float, top_p: float, json: bool) -> int:
    """Look at a prompt (None: one that the run was sampled with) and a way of drawing with a run's best checkpoint; 1 where
    something would ruin every output."""
    from umsicht.evaluate.checkpoint import find, tokenizer_of
    from umsicht.evaluate.troubleshoot import Request, examine
    from umsicht.findings import render
    from umsicht.model import load_weights
    from umsicht.score import of_transformer

    record = find_run(run)
    model = load_weights(find(record)).eval()
    tokenizer = tokenizer_of(record)
    asked = prompt if prompt is not None else _recorded_prompt(record)
    request = Request(
        asked,
        temperature,
        top_p,
        seq_len=model.config.seq_len,
        has_chat_training=bool(record.manifest.get("chat")),
        training_has_eos=_training_has_eos(record, tokenizer.eos_id),
    )
    tokens, findings = examine(request, tokenizer, of_transformer(model))
    if json:
        shown: list[dict[str, Any]] = [{**f.to_dict(), "title": render(f).title} for f in findings]
        print_json({"tokens": [{"id": i, "text": text} for i, text in tokens], "findings": shown})
    else:
        if prompt is None and asked:
            print(t("evaluate.trouble.recorded"))
        print(t("evaluate.trouble.tokens", n=len(tokens)))
        console().print(" | ".join(repr(text)[1:-1] for _, text in tokens), markup=False)
        for finding in findings:
            print_finding(finding)
        if not findings:
            print(t("evaluate.trouble.nothing"))
    return int(any(finding.grade == "stop" for finding in findings))


def _recorded_prompt(record: Run) -> str:
    samples = record.samples()
    return str(samples[-1].get("prompt", "")) if samples else ""


def _training_has_eos(record: Run, eos_id: int) -> bool | None:
    """Whether the documents that the run was trained on end with the end token; None where they are not at hand."""
    from umsicht.evaluate.checkpoint import store_of
    from umsicht.tokens import TokenData

    identity = str(record.manifest.get("inputs", {}).get("tokens", ""))
    found = store_of(record).by_id(identity) if identity else None
    if found is None:
        return None
    train = TokenData.open(found.path).train
    some = range(0, train.n_documents, max(1, train.n_documents // LOOKED_AT))
    return any(int(train.document(number)[-1]) == eos_id for number in some if len(train.document(number)))
