"""Bringing in a Hugging Face model: it becomes a run with one checkpoint, and every verb works on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from umsicht.findings import UserError
from umsicht.model.import_folder import import_folder, read_config
from umsicht.record import Run, Store, atomic_write, content_id, file_digest, short
from umsicht.record.ids import content_id as hash_of
from umsicht.tokenizer import Tokenizer
from umsicht.train import checkpoints
from umsicht.words import t

STAGE_VERSION = 2
TOKENIZER_VERSION = 1


def bring_in(
    folder: str | Path, project: str | Path, *, name: str | None = None, like: Run | None = None
) -> Run:
    """Import the model in `folder` as a run of `project`.

    `like` is a run whose held-out text this model is to be scored on. The same folder brought in twice is the same run.
    Raises `UserError` for a folder that is not there, a missing tokenizer.json, a model we do not express, or a tokenizer larger than the model.
    """
    folder, project = Path(folder), Path(project)
    _must_be_a_folder(folder)
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise UserError(
            t("finetune.import_tokenizer"), where=str(folder), fix=t("finetune.import_tokenizer_fix")
        )
    tokenizer = Tokenizer.load(file)
    model = import_folder(folder, n_tokens=tokenizer.n_tokens)
    if tokenizer.n_tokens > model.config.vocab_size:
        raise UserError(
            t("finetune.import_vocabulary", tokenizer=tokenizer.n_tokens, model=model.config.vocab_size),
            where=str(folder),
            fix=t("finetune.vocabulary_differs_fix"),
        )
    name = name or folder.resolve().name
    digests = {path.name: file_digest(path) for path in sorted(folder.glob("*.safetensors"))}
    _same_end(folder, tokenizer)
    # The same weights under another configuration (base of the rotation, epsilon of the norms) are another model.
    parts = {"weights": digests, "tokenizer": tokenizer.digest, "config": model.config.to_dict()}
    identity = content_id({"stage_version": STAGE_VERSION, **parts})
    target = project / "runs" / f"{_plain(name)}-{short(identity)}"
    if (target / "manifest.json").is_file():
        return Run.open(target)
    artifact = _store_tokenizer(Store(project / "artifacts"), file, tokenizer)
    inherited = {} if like is None else like.manifest.get("inputs", {})
    kept = {key: inherited[key] for key in ("corpus",) if key in inherited}
    run = Run.create(
        target,
        {
            "id": identity,
            "name": name,
            "method": "import",
            "chat": _is_chat(folder, tokenizer),
            "state": "finished",
            "outcome": {"reason": "finished", "step": 0},
            "recipe": {} if like is None else like.manifest.get("recipe", {}),
            "inputs": {**kept, "tokenizer": artifact, **{f"file:{n}": d for n, d in digests.items()}},
            "seed": 0,
            "model": {**model.config.to_dict(), "n_parameters": model.n_parameters()},
            "tokenizer_digest": tokenizer.digest,
        },
    )
    checkpoints.save(
        run,
        checkpoints.Snapshot(
            step=0,
            tokens=0,
            model=checkpoints.snapshot_of(model.state_dict()),
            optimizer={},
            state={},
            config=model.config.to_dict(),
        ),
    )
    return run


def _must_be_a_folder(folder: Path) -> None:
    if folder.is_file():
        raise UserError(t("finetune.import_file", folder=folder), fix=t("finetune.import_file.fix"))
    if not folder.is_dir():
        raise UserError(
            t("finetune.import_absent", folder=folder),
            why=t("finetune.import_absent.why"),
            fix=t("finetune.import_absent.fix", name=folder),
        )


def _same_end(folder: Path, tokenizer: Tokenizer) -> None:
    """Raises `UserError` where the configuration's end token is none of the tokenizer's ids: the two files are of different models."""
    end = read_config(folder).get("eos_token_id")
    unknown = [one for one in (end if isinstance(end, list) else [end]) if isinstance(one, int)]
    unknown = [one for one in unknown if not 0 <= one < tokenizer.n_tokens]
    if unknown:
        raise UserError(
            t("finetune.import_end", end=unknown[0], tokens=tokenizer.n_tokens),
            where=str(folder),
            fix=t("finetune.vocabulary_differs_fix"),
        )


def _store_tokenizer(store: Store, file: Path, tokenizer: Tokenizer) -> str:
    def make(target: Path) -> dict[str, Any]:
        atomic_write(target / "tokenizer.json", file.read_bytes())
        return {"vocab_size": tokenizer.n_tokens, "digest": tokenizer.digest, "imported": True}

    artifact = store.build(
        "tokenizer",
        "imported",
        stage_version=TOKENIZER_VERSION,
        settings={"imported": True},
        inputs={"file:tokenizer.json": hash_of(tokenizer.digest)},
        make=make,
    )
    return artifact.id


def _is_chat(folder: Path, tokenizer: Tokenizer) -> bool:
    """Whether it answers in our chat layout: it says so by its end tokens, and has the marks."""
    try:
        ends = orjson.loads((folder / "generation_config.json").read_bytes()).get("eos_token_id")
    except (OSError, orjson.JSONDecodeError):
        return False
    mark = tokenizer.special.get("<|im_end|>")
    return mark is not None and mark in (ends if isinstance(ends, list) else [ends])


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in name.lower()).strip("-") or "model"
