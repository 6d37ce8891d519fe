"""The mean of the weights over the last part of a run (Izmailov et al. 2018, arXiv 1803.05407), kept beside them in float32."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


class Average:
    """A running mean of `parameters`; which of them is the first is the caller's arithmetic, so that nothing but tensors has to be saved."""

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        self._parameters = dict(parameters)
        self.tensors: dict[str, Tensor] = {
            name: torch.zeros_like(p, dtype=torch.float32) for name, p in parameters.items()
        }

    @torch.no_grad()
    def add(self, count: int) -> None:
        """The weights as they stand are the `count`-th of the mean, from 1."""
        means = list(self.tensors.values())
        torch._foreach_lerp_(means, [p.detach().float() for p in self._parameters.values()], 1.0 / count)

    @torch.no_grad()
    def take(self) -> None:
        """The weights become their mean."""
        for name, parameter in self._parameters.items():
            parameter.copy_(self.tensors[name])


def averaged_from(share: float, total_steps: int) -> int:
    """First step (0-based) of the last `share` of a run; `total_steps` where nothing is averaged."""
    return total_steps - round(share * total_steps) if share else total_steps
