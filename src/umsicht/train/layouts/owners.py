"""Muon where a matrix lies on several ranks: each matrix has one owner, which computes for all.

Every rank sends its pieces of the momentum update to their owners; an owner puts each matrix together, makes it nearly orthogonal, and sends
the pieces back. Where every rank holds the whole update already (data parallel) only the second half is needed: the work is divided instead
of done everywhere. Matrices go to owners by cost, so that all finish together; who owns what follows from shapes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from umsicht.train.clock import communicating
from umsicht.train.reduction import local

Orthogonalise = Callable[[Tensor, int], Tensor]


@dataclass(frozen=True)
class Piece:
    """A rectangle of a matrix: where it begins and its extent, both (rows, columns)."""

    offset: tuple[int, int]
    shape: tuple[int, int]

    @property
    def numel(self) -> int:
        """Elements."""
        return self.shape[0] * self.shape[1]

    def of(self, matrix: Tensor) -> Tensor:
        """The view of this rectangle in the whole matrix."""
        (row, column), (rows, columns) = self.offset, self.shape
        return matrix[row : row + rows, column : column + columns]


def piece_of(parameter: Tensor) -> Piece:
    """Which rectangle of the matrix this rank holds."""
    if local(parameter) is parameter:
        return Piece((0, 0), (parameter.shape[0], parameter.shape[1]))
    from umsicht.train.layouts.pieces import place

    offset, shape = place(parameter)
    return Piece((offset[0], offset[1]), (shape[0], shape[1]))


def assign(shapes: Sequence[tuple[int, int]], world: int) -> list[int]:
    """Owner of each matrix: dearest first, each to the rank with least to do so far."""
    cost = [rows * columns * min(rows, columns) for rows, columns in shapes]
    load = [0] * world
    owners = [0] * len(shapes)
    for index in sorted(range(len(shapes)), key=lambda i: (-cost[i], i)):
        owner = min(range(world), key=lambda rank: (load[rank], rank))
        owners[index] = owner
        load[owner] += cost[index]
    return owners


class Owners:
    """An `Exchange` of `umsicht.train.muon` over a group of ranks. `replicated`: every rank has whole updates to begin with."""

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        group: dist.ProcessGroup,
        orthogonalise: Orthogonalise,
        *,
        replicated: bool,
    ) -> None:
        self._group = group
        self._rank, self._world = dist.get_rank(group), dist.get_world_size(group)
        self._orthogonalise = orthogonalise
        self._replicated = replicated
        self._shapes = [(int(p.shape[0]), int(p.shape[1])) for p in parameters]
        self._owners = assign(self._shapes, self._world)
        mine = [piece_of(p) for p in parameters]
        held: list[list[Piece]] = [mine] * self._world
        if not replicated:
            boxes: list[list[Piece]] = [[] for _ in range(self._world)]
            dist.all_gather_object(boxes, mine, group=group)
            held = boxes
        self._pieces = held

    def __call__(self, indices: Sequence[int], parts: list[Tensor], steps: int) -> list[Tensor]:
        """This rank's pieces of the orthogonalised matrices `indices`, given its pieces `parts` of their updates."""
        if self._replicated:
            whole = {i: p for i, p in zip(indices, parts, strict=True) if self._owners[i] == self._rank}
        else:
            whole = self._collect(indices, parts)
        return self._return(indices, self._compute(whole, steps), parts[0])

    def _compute(self, whole: dict[int, Tensor], steps: int) -> dict[int, Tensor]:
        by_shape: dict[tuple[int, int], list[int]] = {}
        for index in whole:
            by_shape.setdefault(self._shapes[index], []).append(index)
        done: dict[int, Tensor] = {}
        for members in by_shape.values():
            results = self._orthogonalise(torch.stack([whole[i] for i in members]), steps)
            done.update(zip(members, results, strict=True))
        return done

    def _collect(self, indices: Sequence[int], parts: list[Tensor]) -> dict[int, Tensor]:
        """Pieces to their owners; the whole matrices that are ours."""
        part = dict(zip(indices, parts, strict=True))
        sent = [[part[i].reshape(-1) for i in indices if self._owners[i] == r] for r in range(self._world)]
        ours = [i for i in indices if self._owners[i] == self._rank]
        sizes = [sum(self._pieces[r][i].numel for i in ours) for r in range(self._world)]
        received = self._exchange(sent, sizes, parts[0])
        whole = {i: parts[0].new_empty(self._shapes[i]) for i in ours}
        for rank, flat in enumerate(received):
            offset = 0
            for i in ours:
                piece = self._pieces[rank][i]
                piece.of(whole[i]).copy_(flat[offset : offset + piece.numel].view(piece.shape))
                offset += piece.numel
        return whole

    def _return(self, indices: Sequence[int], done: dict[int, Tensor], like: Tensor) -> list[Tensor]:
        """Pieces back to those who hold them."""
        ours = [i for i in indices if self._owners[i] == self._rank]
        sent = [
            [self._pieces[r][i].of(done[i]).reshape(-1).to(like.dtype) for i in ours]
            for r in range(self._world)
        ]
        mine = self._pieces[self._rank]
        sizes = [sum(mine[i].numel for i in indices if self._owners[i] == r) for r in range(self._world)]
        received = self._exchange(sent, sizes, like)
        offsets = [0] * self._world
        results = []
        for i in indices:
            owner, piece = self._owners[i], mine[i]
            flat = received[owner][offsets[owner] : offsets[owner] + piece.numel]
            offsets[owner] += piece.numel
            results.append(flat.view(piece.shape))
        return results

    def _exchange(self, sent: list[list[Tensor]], sizes: list[int], like: Tensor) -> list[Tensor]:
        flat = [torch.cat(one) if one else like.new_empty(0) for one in sent]
        out = like.new_empty(sum(sizes))
        with communicating():
            dist.all_to_all_single(
                out, torch.cat(flat), sizes, [one.numel() for one in flat], group=self._group
            )
        return list(torch.split(out, sizes))
