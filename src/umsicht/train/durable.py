"""The second tier of checkpoints: rarer copies at a place that outlives the machine (a folder elsewhere, s3, gs: whatever fsspec opens).

Training writes locally and goes on; a thread carries the newest whole checkpoint away, with retries that wait longer each time. A place that
fails never stops training by itself: only when more steps than `checkpoint.max_unsaved_steps` have no copy. The manifest is carried last, so
that a copy cut short is no checkpoint, as on the local disk.
"""

from __future__ import annotations

import importlib
import random
import threading
import time
from pathlib import Path
from typing import Any

import orjson

from umsicht.findings import Finding, UserError
from umsicht.recipe.train import CheckpointSettings, DurableSettings
from umsicht.record import Run, atomic_folder
from umsicht.record.manifest import MANIFEST, verify
from umsicht.train import checkpoints
from umsicht.train.hooks import EVERY_STEP, Hook, StopRun, View
from umsicht.words import t


class Place:
    """A folder of checkpoints of one run, at `url`. Raises UserError where no file system of installed packages opens it."""

    def __init__(self, url: str, name: str) -> None:
        fsspec: Any = importlib.import_module("fsspec")
        try:
            self.system, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise UserError(
                t("train.durable_unknown", url=url), where="train.checkpoint.durable.url", why=str(error)
            ) from None
        self.root = f"{root.rstrip('/')}/{name}"

    def put(self, folder: Path) -> None:
        """Carry a checkpoint there, its manifest last; sizes are compared. Raises OSError, or whatever the file system raises."""
        target = f"{self.root}/{folder.name}"
        files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != MANIFEST]
        for path in [*files, folder / MANIFEST]:
            there = f"{target}/{path.relative_to(folder).as_posix()}"
            self.system.makedirs(there.rsplit("/", 1)[0], exist_ok=True)
            self.system.put_file(str(path), there)
            self.system.invalidate_cache()
            size = self.system.info(there)["size"]
            if size != path.stat().st_size:
                raise OSError(f"{there}: {size} of {path.stat().st_size} bytes arrived")

    def steps(self) -> list[int]:
        """Steps of the copies that are whole, oldest first."""
        self.system.invalidate_cache()
        found = []
        if self.system.exists(self.root):
            for entry in self.system.ls(self.root, detail=False):
                name = entry.rstrip("/").rsplit("/", 1)[-1]
                number = name.removeprefix("step-")
                if number.isdigit() and self.system.exists(f"{self.root}/{name}/{MANIFEST}"):
                    found.append(int(number))
        return sorted(found)

    def get(self, step: int, run: Run) -> Path:
        """Bring a copy into the run's folder. Raises OSError where it does not arrive whole."""
        name = checkpoints.folder_name(step)
        with atomic_folder(run.checkpoints / name) as folder:
            manifest = orjson.loads(self.system.cat_file(f"{self.root}/{name}/{MANIFEST}"))
            for relative in [*manifest["files"], MANIFEST]:
                (folder / relative).parent.mkdir(parents=True, exist_ok=True)
                self.system.get_file(f"{self.root}/{name}/{relative}", str(folder / relative))
            if damage := verify(folder):
                raise OSError(f"{self.root}/{name}/{damage[0].path}: {damage[0].problem}")
        return run.checkpoints / name

    def drop(self, step: int) -> None:
        """Delete a copy, its manifest first."""
        name = checkpoints.folder_name(step)
        self.system.rm_file(f"{self.root}/{name}/{MANIFEST}")
        self.system.rm(f"{self.root}/{name}", recursive=True)


def fetch(run: Run, settings: CheckpointSettings) -> Path | None:
    """The newest copy that arrives whole, for a machine whose own disk has none; None where there is no second tier, or nothing in it."""
    if settings.durable is None:
        return None
    place = Place(settings.durable.url, run.name)
    for step in reversed(place.steps()):
        try:
            return place.get(step, run)
        except Exception:  # every file system raises its own; an older copy may still arrive
            continue
    return None


class DurableTier(Hook):
    """Carries checkpoints away while training goes on. Retries after 1, 2, 4 … seconds (and a little, so that many runs do not knock at once)."""

    name = "durable-checkpoints"
    every = EVERY_STEP
    only_writer = True
    looks_at_model = False

    def __init__(self, run: Run, settings: CheckpointSettings) -> None:
        assert settings.durable is not None
        self._run, self._settings = run, settings
        self._durable: DurableSettings = settings.durable
        self._place = Place(self._durable.url, run.name)
        self._thread: threading.Thread | None = None
        self._began_at = 0
        self.saved_step = -1
        self.attempts = 0
        self.problem = ""
        self._said = ""

    def at_start(self, view: View) -> None:
        """Copies that are there already count."""
        self._began_at = view.step

    def after_step(self, view: View) -> None:
        """Begin a copy where one is due; stop where too many steps have none."""
        if self._began_at == 0:
            self._began_at = max(1, view.step - 1)
        if self._thread is None or not self._thread.is_alive():
            self._begin(last=False)
        self._say(view)
        limit = self._settings.max_unsaved_steps
        behind = view.step - max(self.saved_step, self._began_at)
        if limit is not None and behind > limit:
            raise StopRun(self._finding(view, "stop", behind))

    def at_end(self, view: View) -> None:
        """Carry the last checkpoint away too, before the process ends."""
        if self._thread is not None:
            self._thread.join()
        self._begin(last=True)
        if self._thread is not None:
            self._thread.join()
        self._say(view)

    def _begin(self, *, last: bool) -> None:
        newest = next((c for c in reversed(checkpoints.listed(self._run))), None)
        if newest is None or newest.step <= self.saved_step:
            return
        if not last and newest.step - max(0, self.saved_step) < self._durable.every_steps:
            return
        self._thread = threading.Thread(
            target=self._carry, args=(newest.path, newest.step), name="umsicht-durable"
        )
        self._thread.start()

    def _carry(self, path: Path, step: int) -> None:
        wait = self._durable.first_wait_s
        for attempt in range(self._durable.retries + 1):
            self.attempts += 1
            try:
                self._place.put(path)
            except FileNotFoundError as error:
                if not path.is_dir():
                    return  # pruned meanwhile: a newer one is there
                self.problem = str(error)
            except Exception as error:  # every file system raises its own
                self.problem = f"{type(error).__name__}: {error}"
            else:
                self.saved_step, self.problem = step, ""
                self._prune()
                return
            if attempt < self._durable.retries:
                time.sleep(wait * (1 + 0.1 * random.random()))
                wait = min(2 * wait, 60.0)

    def _prune(self) -> None:
        try:
            for step in self._place.steps()[: -self._durable.keep_last]:
                self._place.drop(step)
        except Exception as error:  # a copy too many harms nobody
            self.problem = f"{type(error).__name__}: {error}"

    def _say(self, view: View) -> None:
        """A problem goes into the record once, until it changes."""
        problem = self.problem
        if problem and problem != self._said:
            behind = view.step - max(self.saved_step, self._began_at)
            view.run.add_finding({**self._finding(view, "warn", behind).to_dict(), "step": view.step})
        self._said = problem

    def _finding(self, view: View, grade: Any, behind: int) -> Finding:
        numbers = {"step": view.step, "behind": behind, "attempts": self.attempts, "error": self.problem}
        return Finding("CHECKPOINT/not-durable", grade, "train", self._place.root, numbers)
