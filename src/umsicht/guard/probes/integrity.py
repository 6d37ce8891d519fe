"""T21: what is read back is what was written; damage, missing and strange names are refused; a tie is still a tie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import torch

from umsicht.findings import Finding
from umsicht.guard.probes.rehearse import Recorder, Stage, fit, stage_of
from umsicht.guard.subject import Subject, numbers
from umsicht.recipe.train import EarlyStoppingSettings
from umsicht.train import checkpoints

STATE = ("step", "tokens", "source", "hooks", "best", "early_stopping")


def checkpoint_integrity(subject: Subject) -> Iterator[Finding]:
    """What is read back is what was written; damage, missing and strange names are refused; a tie is still a tie."""
    stage = stage_of(subject)
    recorder = Recorder()
    trainer = stage.trainer("checkpoint", hooks=[recorder], settings=stage.short(2))
    fit(trainer)
    run = trainer.run
    path = checkpoints.latest(run)
    if path is None:
        yield _stop("CHECKPOINT/none", "checkpoint", steps=2)
        return
    loaded = checkpoints.load(path)
    yield from _same_tensors(trainer, loaded)
    yield from _same_state(stage)
    yield from _strict(stage, loaded)
    yield from _ties(stage, trainer, loaded)
    yield from _damage(run)
    yield from _kill(stage)


def _stop(name: str, location: str, **counts: Any) -> Finding:
    return Finding(name, "stop", "checkpoint", location=location, numbers=numbers(**counts))


def _same_tensors(trainer: Any, loaded: Any) -> Iterator[Finding]:
    own = checkpoints.snapshot_of(trainer.model.state_dict())
    wrong = [
        name for name in own if name not in loaded.model or not _bits_equal(own[name], loaded.model[name])
    ]
    extra = sorted(set(loaded.model) - set(own))
    if wrong or extra:
        yield _stop(
            "LOAD-MAP/checkpoint-differs",
            f"checkpoint: {(wrong or extra)[0]}",
            tensors=len(wrong),
            extra=len(extra),
            names=", ".join((wrong + extra)[:5]),
        )
        return
    state = trainer.carried.optimizer.state_tensors()
    off = [
        name
        for name, value in state.items()
        if name not in loaded.optimizer or not _bits_equal(value.cpu(), loaded.optimizer[name])
    ]
    if off or set(loaded.optimizer) - set(state):
        yield _stop(
            "RESUME-STATE/optimizer-not-saved",
            f"checkpoint: {off[0] if off else 'optimizer'}",
            tensors=len(off),
            names=", ".join(off[:5]),
        )


def _same_state(stage: Stage) -> Iterator[Finding]:
    """All that is no tensor: position, best values, random states, what monitors remember; and a snapshot that is a copy."""
    settings = stage.short(3)
    kept = settings.checkpoint.model_copy(update={"keep_best": {"train/loss": "down"}, "every_steps": 1})
    settings = settings.model_copy(
        update={
            "checkpoint": kept,
            "early_stopping": EarlyStoppingSettings(metric="train/loss", patience=1000),
        }
    )
    make = stage.monitors
    hooks = make(settings, 3) if make is not None else []
    trainer = stage.trainer("state", hooks=hooks, settings=settings)
    fit(trainer)
    snapshot = trainer.carried.snapshot({})
    live = {t.data_ptr() for t in [*trainer.model.state_dict().values()] if t.numel()}
    live |= {t.data_ptr() for t in trainer.carried.optimizer.state_tensors().values() if t.numel()}
    shared = [
        name
        for name, t in [*snapshot.model.items(), *snapshot.optimizer.items()]
        if t.numel() and t.data_ptr() in live
    ]
    if shared:
        yield _stop(
            "RESUME-STATE/snapshot-shared",
            f"checkpoint: {shared[0]}",
            tensors=len(shared),
            names=", ".join(shared[:5]),
        )
        return
    path = checkpoints.latest(trainer.run)
    if path is None:
        return
    loaded = checkpoints.load(path)
    again = stage.trainer("state", hooks=make(settings, 3) if make is not None else [], settings=settings)
    again.carried.restore(loaded)
    # The generators are compared by the rehearsal, step by step.
    want = {key: value for key, value in _as_json(snapshot.state).items() if key in STATE}
    for label, state in (("saved", loaded.state), ("restored", again.carried.snapshot({}).state)):
        found = {key: value for key, value in _as_json(state).items() if key in STATE}
        wrong = sorted(key for key in {*want, *found} if want.get(key) != found.get(key))
        if wrong:
            yield _stop("RESUME-STATE/state", f"checkpoint: {wrong[0]}", label=label, fields=", ".join(wrong))
            return


def _as_json(state: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = orjson.loads(
        orjson.dumps(state, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    )
    return plain


def _bits_equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and torch.equal(left, right)


def _strict(stage: Stage, loaded: Any) -> Iterator[Finding]:
    """A missing name, a strange name and a wrong shape must each be refused."""
    from umsicht.findings import UserError

    names = list(loaded.model)
    wide = next((name for name in names if loaded.model[name].dim()), "")
    cases = {
        "missing": {name: value for name, value in loaded.model.items() if name != names[-1]},
        "renamed": {
            (f"_orig_mod.{name}" if index == 0 else name): value
            for index, (name, value) in enumerate(loaded.model.items())
        },
        "extra": {**loaded.model, "strange.weight": torch.zeros(2)},
        "shape": {name: (value[:1] if name == wide else value) for name, value in loaded.model.items()},
    }
    for kind, tensors in cases.items():
        model = stage.make_model()
        try:
            checkpoints.restore_model(model, tensors, "rehearsal")
        except (UserError, RuntimeError, KeyError, ValueError):
            continue
        yield _stop("LOAD-MAP/not-strict", f"checkpoint: {kind}", kind=kind, tensors=len(tensors))
        return


def _ties(stage: Stage, trainer: Any, loaded: Any) -> Iterator[Finding]:
    """Weights that share storage in a fresh model share it after loading, and no others do."""
    fresh: Any = stage.make_model()
    restored: Any = stage.make_model()
    checkpoints.restore_model(restored, loaded.model, "rehearsal")

    def shared(model: Any) -> set[frozenset[str]]:
        groups: dict[int, set[str]] = {}
        for name, tensor in model.state_dict().items():
            if tensor.numel():
                groups.setdefault(tensor.data_ptr(), set()).add(name)
        return {frozenset(names) for names in groups.values() if len(names) > 1}

    wanted = shared(fresh)
    for label, model in (("loaded", restored), ("trained", trainer.model)):
        if shared(model) != wanted:
            yield _stop(
                "LOAD-MAP/tie-broken",
                f"checkpoint: {label} model",
                tied=len(wanted),
                found=len(shared(model)),
            )
            return
    config = getattr(fresh, "config", None)
    for model in (fresh, restored, trainer.model) if getattr(config, "tied", None) is True else ():
        table, head = getattr(model, "embed", None), getattr(model, "head_weight", None)
        if table is not None and head is not None and head.data_ptr() != table.weight.data_ptr():
            yield _stop("LOAD-MAP/tie-broken", "model: head", tied=1, found=0)
            return


def _damage(run: Any) -> Iterator[Finding]:
    """One flipped byte in any file of the newest checkpoint: it must not be loaded."""
    import shutil

    newest = checkpoints.latest(run)
    if newest is None:
        return
    for file in sorted(newest.iterdir()):
        if not file.is_file() or file.stat().st_size == 0 or file.name == "manifest.json":
            continue
        kept = file.read_bytes()
        middle = len(kept) // 2
        try:
            file.write_bytes(kept[:middle] + bytes([kept[middle] ^ 0x40]) + kept[middle + 1 :])
            accepted = checkpoints.latest(run)
        finally:
            file.write_bytes(kept)
        if accepted == newest:
            yield _stop(
                "CHECKPOINT/damage-accepted", f"checkpoint: {file.name}", file=file.name, bytes=len(kept)
            )
            return
    torn = newest.with_name(f"step-{99_999_999:08d}")
    torn.mkdir()
    try:
        (torn / "model.safetensors").write_bytes((newest / "model.safetensors").read_bytes()[:100])
        if checkpoints.latest(run) == torn:
            yield _stop(
                "CHECKPOINT/damage-accepted", "checkpoint: half-written folder", file="folder", bytes=100
            )
    finally:
        shutil.rmtree(torn)


def _kill(stage: Stage) -> Iterator[Finding]:
    """A process killed at each point of writing a checkpoint leaves the earlier one whole."""
    import os

    if not hasattr(os, "fork"):
        return
    run = stage.run("kill")
    tensors = {f"t{index}": torch.full((256,), float(index)) for index in range(3)}
    for step in (1, 2):
        checkpoints.save(run, _snapshot(step, tensors))
    for point in range(1, 9):
        if not _killed_while_saving(run, _snapshot(3, tensors), point):
            break
        found = checkpoints.latest(run)
        if found is None or found.name not in (checkpoints.folder_name(2), checkpoints.folder_name(3)):
            yield _stop(
                "CHECKPOINT/kill-loses", "checkpoint: killed while writing", point=point, left=str(found)
            )
            return
        if found.name == checkpoints.folder_name(3):
            loaded = checkpoints.load(found)
            if any(not torch.equal(loaded.model[name], value) for name, value in tensors.items()):
                yield _stop(
                    "CHECKPOINT/kill-loses", "checkpoint: killed while writing", point=point, left=found.name
                )
                return


def _snapshot(step: int, tensors: dict[str, torch.Tensor]) -> checkpoints.Snapshot:
    return checkpoints.Snapshot(
        step=step,
        tokens=step,
        model=dict(tensors),
        optimizer={"t0/step": torch.tensor(float(step))},
        state={"step": step},
        config=None,
    )


def _killed_while_saving(run: Any, snapshot: checkpoints.Snapshot, point: int) -> bool:
    """Fork, die at the `point`-th call that reaches the disk; True where the child died there, False where it finished first."""
    import os

    child = os.fork()
    if child == 0:
        try:
            calls = 0

            def dying(original: Any) -> Any:
                def call(*arguments: Any, **keywords: Any) -> Any:
                    nonlocal calls
                    calls += 1
                    if calls >= point:
                        os._exit(77)
                    return original(*arguments, **keywords)

                return call

            for name in ("fsync", "replace", "rename"):
                setattr(os, name, dying(getattr(os, name)))
            checkpoints.save(run, snapshot)
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 77
