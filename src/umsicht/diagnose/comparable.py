"""What must be equal before two figures may be compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from umsicht.diagnose.curves import VAL
from umsicht.diagnose.groups import Measured
from umsicht.words import t

BPB = "val/all/bpb"
_PER_TOKEN = ("/loss", "perplexity")


def choose_metric(runs: list[Measured]) -> str:
    """Bits per byte where every run has them, else the validation loss."""
    return BPB if all(run.curves.get(BPB) for run in runs) else VAL


def check(runs: list[Measured], metric: str) -> tuple[str, list[str]]:
    """(reason to refuse or "", cautions). Only what the records say is judged; what a foreign log does not say becomes a caution."""
    own = [run for run in runs if run.own]
    cautions = []
    if len(own) < len(runs):
        cautions.append(
            t("diagnose.compare.unknown", runs=", ".join(run.name for run in runs if not run.own))
        )
        sets = {frozenset(run.curves.val_slices()) for run in runs}
        if len(sets) > 1:
            cautions.append(t("diagnose.compare.slices"))
    if len(own) >= 2:
        refused = _refuse(own, metric)
        if refused:
            return refused, cautions
    if len({run.curves.planned_steps for run in runs if run.curves.planned_steps}) > 1:
        cautions.append(t("diagnose.compare.schedule"))
    unfinished = [run.name for run in own if run.curves.finished is False]
    if unfinished:
        cautions.append(t("diagnose.compare.unfinished", runs=", ".join(unfinished)))
    return "", cautions


def _refuse(own: list[Measured], metric: str) -> str:
    tokenizers = {_tokenizer(run) for run in own} - {None}
    if len(tokenizers) > 1 and metric.endswith(_PER_TOKEN):
        return t("diagnose.compare.refuse.tokenizer", metric=metric, runs=_pair(own, _tokenizer))
    corpora = {_input(run, "corpus") for run in own} - {None}
    if len(corpora) > 1 and metric.startswith("val/"):
        return t("diagnose.compare.refuse.validation", runs=_pair(own, lambda run: _input(run, "corpus")))
    if len({_canonical(_validation(run)) for run in own}) > 1 and metric.startswith("val/"):
        return t(
            "diagnose.compare.refuse.procedure", runs=_pair(own, lambda run: _canonical(_validation(run)))
        )
    if len({frozenset(run.curves.val_slices()) for run in own}) > 1:
        return t(
            "diagnose.compare.refuse.slices", runs=_pair(own, lambda run: frozenset(run.curves.val_slices()))
        )
    protocols = {protocol for run in own if (protocol := _protocol(run)) is not None}
    if len(protocols) > 1 and metric.endswith("/bpb"):
        return t("diagnose.compare.refuse.protocol", runs=_pair(own, _protocol))
    return ""


def _pair(own: list[Measured], key: Callable[[Measured], Any]) -> str:
    """The first two runs that differ."""
    first = own[0]
    other = next((run for run in own[1:] if key(run) != key(first)), own[-1])
    return f"{first.name}, {other.name}"


def _input(run: Measured, kind: str) -> str | None:
    inputs = run.manifest.get("inputs")
    value = inputs.get(kind) if isinstance(inputs, Mapping) else None
    return str(value) if value else None


def _tokenizer(run: Measured) -> str | None:
    digest = run.manifest.get("tokenizer_digest")
    return str(digest) if digest else _input(run, "tokenizer")


def _validation(run: Measured) -> dict[str, Any]:
    """The settings that decide which validation text is scored, and with how much context."""
    recipe = run.manifest.get("recipe")
    train = recipe.get("train", {}) if isinstance(recipe, Mapping) else {}
    model = recipe.get("model", {}) if isinstance(recipe, Mapping) else {}
    validation = train.get("validation", {}) if isinstance(train, Mapping) else {}
    kept = {key: validation[key] for key in ("slice_bytes",) if key in validation}
    seq_len = model.get("seq_len") if isinstance(model, Mapping) else None
    return {**kept, "seq_len": seq_len}


def _canonical(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _protocol(run: Measured) -> str | None:
    """The protocol of the last evaluation, where one was made."""
    folder = Path(run.path) / "evaluations"
    for path in sorted(folder.glob("step-*.json"), reverse=True):
        try:
            protocol = orjson.loads(path.read_bytes()).get("protocol")
        except (OSError, orjson.JSONDecodeError, AttributeError):
            continue
        return _canonical(protocol) if protocol is not None else None
    return None
