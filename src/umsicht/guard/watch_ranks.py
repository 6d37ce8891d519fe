"""Several processes of one training, each with a monitor in the same folder: do they hold the same weights and read different rows?

They meet in files, not in a collective: a monitor that only one process has, or one that stops, can block nobody. Each writes sums of the bits
of its weights and gradients and the hashes of its rows at a few steps; rank 0 reads the others' files. Replicas are told from parts of a
model by what they begin with: equal weights, or equal gradients after the exchange. Where neither is so, nothing is said.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn

from umsicht.guard.watch_log import WatchLog
from umsicht.record.run import append_jsonl

ROWS_FROM = 64
"""Steps from the first whose rows are compared."""
EVERY = 500
EARLY = (1, 2, 3, 5, 10, 20, 50, 100, 200)
"""Updates before which weights are compared, and every 500th."""
LEAST_STEPS = 3
OVERLAP = 0.2
"""A sampler that fills its last batch up repeats a few rows; two orders of their own share half of them in half an epoch."""
_WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Look:
    """What one process said at one step: sums of bits by parameter, in the model's order, and hashes of rows."""

    step: int
    weights: list[int]
    gradients: list[int]
    rows: list[int]


def place() -> tuple[int, int]:
    """(rank, number of processes) of this training."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


class Beside:
    """One process's side of the comparison; with one process it does nothing."""

    def __init__(self, log: WatchLog, folder: Path, model: nn.Module) -> None:
        self.log, self.model = log, model
        self.rank, self.world = place()
        self.folder = folder / "ranks"
        self.updates = 0
        self._begun = time.time()
        self._done = self.world == 1

    def open(self) -> None:
        """Leave nothing of an earlier training behind."""
        if not self._done:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file(self.rank).unlink(missing_ok=True)

    def before(self, batches: list[torch.Tensor]) -> None:
        """Gradients are there, weights have not moved; `batches` are the ids that this step was fed."""
        self.updates += 1
        weighs = self.updates in EARLY or self.updates % EVERY == 0
        if self._done or not (weighs or self.updates <= ROWS_FROM):
            return
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        whole = weighs and not is_parted(parameters, self.model)
        found = Look(
            self.updates,
            [bits(p) for p in parameters] if whole else [],
            [bits(p.grad) for p in parameters if p.grad is not None] if whole else [],
            [content(row.tobytes()) for ids in batches for row in ids.cpu().numpy()]
            if self.updates <= ROWS_FROM
            else [],
        )
        append_jsonl(self._file(self.rank), [{**vars(found), "time": time.time()}])
        if weighs:
            self.judge()

    def judge(self) -> None:
        """On rank 0: compare what all have said so far. Called again at the end, when the others have caught up."""
        if self._done or self.rank:
            return
        told = [{look.step: look for look in self._read(rank)} for rank in range(self.world)]
        steps = sorted(set.intersection(*(set(one) for one in told)))
        weighed = [step for step in steps if all(one[step].weights for one in told)]
        if not weighed:
            return
        first = [one[weighed[0]] for one in told]
        begins_equal = _equal([look.weights for look in first])
        if not begins_equal and not _equal([look.gradients for look in first]):
            return
        if self._weights(told, weighed) or self._rows(told, steps):
            self._done = True

    def _weights(self, told: list[dict[int, Look]], steps: list[int]) -> bool:
        names = [name for name, p in self.model.named_parameters() if p.requires_grad]
        for step in steps:
            for rank, one in enumerate(told):
                pairs = zip(told[0][step].weights, one[step].weights, strict=False)
                other = next((index for index, (mine, theirs) in enumerate(pairs) if mine != theirs), None)
                if other is not None:
                    self.log.add(
                        "RANK/parameters-differ",
                        "stop",
                        f"ranks: step {step}, {names[other]}",
                        once=True,
                        step=step,
                        rank=rank,
                        other=0,
                        name=names[other],
                    )
                    return True
        return False

    def _rows(self, told: list[dict[int, Look]], steps: list[int]) -> bool:
        """The same rows at the same steps, or rows that one process reads and another has read or will read in the same pass."""
        fed = [step for step in steps if all(one[step].rows for one in told)]
        if len(fed) < LEAST_STEPS:
            return False
        same = all(_equal([sorted(one[step].rows) for one in told]) for step in fed)
        passes = [set(_one_pass(one, fed)) for one in told]
        mine = passes[0]
        twice = max(len(mine & other) for other in passes[1:])
        if not same and twice < max(4, OVERLAP * len(mine)):
            return False
        self.log.add(
            "DATA-ORDER/ranks",
            "stop" if same else "warn",
            f"data order: step {fed[0]}, {self.world} ranks",
            once=True,
            world=self.world,
            micro_batch=len(told[0][fed[0]].rows),
            repeated=twice,
        )
        return True

    def _file(self, rank: int) -> Path:
        return self.folder / f"rank-{rank:05d}.jsonl"

    def _read(self, rank: int) -> Iterator[Look]:
        """What `rank` wrote since this process began; a line that is being written is left for the next time."""
        try:
            lines = self._file(rank).read_text("utf-8").splitlines()
        except OSError:
            return
        for line in lines:
            try:
                said: dict[str, Any] = json.loads(line)
            except ValueError:
                continue
            if said.pop("time") >= self._begun or rank == self.rank:
                yield Look(**said)


def _one_pass(looks: dict[int, Look], steps: list[int]) -> Iterator[int]:
    """Rows of one process until its first comes again."""
    seen: set[int] = set()
    for step in steps:
        rows = looks[step].rows
        if seen.intersection(rows):
            return
        seen.update(rows)
        yield from rows


def _equal(values: list[Any]) -> bool:
    return all(one == values[0] for one in values[1:])


def is_parted(parameters: list[nn.Parameter], model: nn.Module) -> bool:
    """Whether this process holds pieces of parameters (FSDP, ZeRO 3, tensors of a mesh): pieces differ as they should."""
    kinds = {kind.__name__ for module in model.modules() for kind in type(module).__mro__}
    return bool(kinds & {"FullyShardedDataParallel", "FSDPModule"}) or any(
        hasattr(p, "device_mesh") or hasattr(p, "ds_id") or p.numel() == 0 for p in parameters
    )


def bits(tensor: torch.Tensor) -> int:
    """The sum of a tensor's bits read as whole numbers: exact, in any order, and cheap where the tensor lies."""
    whole = _WHOLE.get(tensor.element_size(), torch.int8)
    return int(tensor.detach().contiguous().view(-1).view(whole).sum(dtype=torch.int64))


def content(row: bytes) -> int:
    """A number for a row that is the same in every process (Python's own hash is not)."""
    return int.from_bytes(hashlib.blake2b(row, digest_size=7).digest(), "big")
