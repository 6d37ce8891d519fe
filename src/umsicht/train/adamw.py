"""AdamW (Loshchilov & Hutter 2019, arXiv 1711.05101) by PyTorch's fused kernel, called directly.

`torch.optim.AdamW` gives the same bits, but its first use imports the compiler (three seconds) and its state is keyed by position; here
the state is plain lists beside the parameters.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from umsicht.train.reduction import local


class AdamW:
    """Decoupled weight decay; moments in float32, one step counter a parameter (a parameter without gradient does not age)."""

    def __init__(
        self,
        parameters: list[nn.Parameter],
        *,
        betas: tuple[float, float],
        epsilon: float,
        weight_decay: float,
    ) -> None:
        self._parameters = parameters
        self._betas = betas
        self._epsilon = epsilon
        self._weight_decay = weight_decay
        self.first = [torch.zeros_like(p) for p in parameters]
        self.second = [torch.zeros_like(p) for p in parameters]
        self.steps = [torch.zeros((), dtype=torch.float32, device=p.device) for p in parameters]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """One update at learning rate `rate`; parameters without a gradient stay where they are."""
        live = [i for i, p in enumerate(self._parameters) if p.grad is not None]
        if not live:
            return
        torch._foreach_add_([self.steps[i] for i in live], 1)
        # A rank may hold an empty piece of a short tensor.
        live = [i for i in live if local(self._parameters[i]).numel()]
        if not live:
            return
        steps = [self.steps[i] for i in live]
        parameters = [local(self._parameters[i]) for i in live]
        gradients = [
            _laid_out_as(local(self._parameters[i].grad), p)  # type: ignore[arg-type]  # live ones have one
            for i, p in zip(live, parameters, strict=True)
        ]
        torch._fused_adamw_(
            parameters,
            gradients,
            [local(self.first[i]) for i in live],
            [local(self.second[i]) for i in live],
            [],
            steps,
            lr=rate,
            beta1=self._betas[0],
            beta2=self._betas[1],
            weight_decay=self._weight_decay,
            eps=self._epsilon,
            amsgrad=False,
            maximize=False,
        )


def _laid_out_as(gradient: Tensor, parameter: Tensor) -> Tensor:
    """The fused kernel walks memory, not indices: a gradient that lies transposed (as DTensor's do) would be added to the wrong elements."""
    if gradient.shape != parameter.shape:
        raise ValueError(
            f"a gradient of shape {tuple(gradient.shape)} for a weight of {tuple(parameter.shape)}"
        )
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)
