"""One optimizer over all parameter groups: Muon for matrices, fused AdamW for the rest; state is keyed by parameter name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from umsicht.findings.errors import UserError
from umsicht.recipe.train import OptimizerSettings
from umsicht.train.adamw import AdamW
from umsicht.train.average import Average
from umsicht.train.groups import Group, parameter_groups
from umsicht.train.muon import Exchange, Muon
from umsicht.words import t

Orthogonaliser = Callable[[Sequence[nn.Parameter]], Exchange | None]
"""How Muon gets at some matrices whole; None where the process has them whole."""


class Optimizer:
    """Moves the trainable parameters of `model`. Weights in less than float32 get float32 master copies here.

    `orthogonaliser` gives, for a list of matrices, how Muon gets at them whole where they lie on several ranks.
    """

    def __init__(
        self,
        model: nn.Module,
        settings: OptimizerSettings,
        *,
        orthogonaliser: Orthogonaliser | None = None,
    ) -> None:
        self.groups = parameter_groups(model, settings)
        self._masters: list[tuple[str, nn.Parameter, nn.Parameter]] = []
        self._moved: list[tuple[Group, Muon | AdamW]] = []
        for group in self.groups:
            held = [self._held(name, p) for name, p in zip(group.names, group.parameters, strict=True)]
            self._moved.append((group, _algorithm(group, held, settings, orthogonaliser)))
        self._average = Average(self._held_by_name()) if settings.average_share else None

    def _held_by_name(self) -> dict[str, nn.Parameter]:
        """What is moved, by name: masters where there are some."""
        held = {name: p for g in self.groups for name, p in zip(g.names, g.parameters, strict=True)}
        return {**held, **{name: master for name, _, master in self._masters}}

    def average(self, count: int) -> None:
        """Take the weights as they stand into the average, as the `count`-th of them (from 1)."""
        if self._average is not None:
            self._average.add(count)

    @torch.no_grad()
    def take_average(self) -> None:
        """Put the average in the place of the weights."""
        if self._average is None:
            return
        self._average.take()
        for _, parameter, master in self._masters:
            parameter.copy_(master)

    def _held(self, name: str, parameter: nn.Parameter) -> nn.Parameter:
        """What is moved: the parameter itself, or its float32 master."""
        if parameter.dtype not in (torch.bfloat16, torch.float16):
            return parameter
        master = nn.Parameter(parameter.detach().float())
        self._masters.append((name, parameter, master))
        return master

    @property
    def parameters(self) -> list[nn.Parameter]:
        """Every parameter of the model that is trained, in group order."""
        return [p for g in self.groups for p in g.parameters]

    @property
    def names(self) -> list[str]:
        """Names in the order of `parameters`."""
        return [n for g in self.groups for n in g.names]

    def rates(self, factor: float) -> dict[str, float]:
        """Learning rate of each role at a schedule factor."""
        return {g.role: g.rate * factor for g in self.groups}

    @torch.no_grad()
    def step(self, factor: float) -> None:
        """One update at `factor` times each group's base rate."""
        for _, parameter, master in self._masters:
            master.grad = None if parameter.grad is None else parameter.grad.float()
        for group, algorithm in self._moved:
            algorithm.step(group.rate * factor)
        for _, parameter, master in self._masters:
            parameter.copy_(master)

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def _state(self) -> Iterator[tuple[str, Tensor]]:
        for group, algorithm in self._moved:
            fields = (
                {"momentum": algorithm.buffers}
                if isinstance(algorithm, Muon)
                else {"first": algorithm.first, "second": algorithm.second, "step": algorithm.steps}
            )
            for field, tensors in fields.items():
                for name, tensor in zip(group.names, tensors, strict=True):
                    yield f"{name}/{field}", tensor
        for name, _, master in self._masters:
            yield f"{name}/master", master.detach()
        if self._average is not None:
            for name, tensor in self._average.tensors.items():
                yield f"{name}/average", tensor

    def state_tensors(self) -> dict[str, Tensor]:
        """The whole state as `name/field` → the live tensor; what `load_state_tensors` takes back."""
        return dict(self._state())

    @torch.no_grad()
    def load_state_tensors(self, state: dict[str, Tensor]) -> None:
        """Take back a saved state. Raises UserError where names or shapes do not fit: nothing is matched by position."""
        own = self.state_tensors()
        for name, tensor in own.items():
            if name not in state or state[name].shape != tensor.shape:
                raise _unfit(t("train.optimizer_state_missing", name=name))
        extra = sorted(set(state) - set(own))
        if extra:
            raise _unfit(t("train.optimizer_state_extra", names=", ".join(extra[:3]), n=len(extra)))
        for name, tensor in own.items():
            tensor.copy_(state[name])


def _algorithm(
    group: Group,
    held: list[nn.Parameter],
    settings: OptimizerSettings,
    orthogonaliser: Orthogonaliser | None,
) -> Muon | AdamW:
    if group.algorithm == "muon":
        is_rounded = all(p.dtype == torch.bfloat16 for p in group.parameters)
        return Muon(
            held,
            momentum=settings.momentum,
            steps=settings.newton_schulz_steps,
            weight_decay=group.weight_decay,
            products=torch.bfloat16 if is_rounded else torch.float32,
            exchange=orthogonaliser(held) if orthogonaliser else None,
        )
    return AdamW(
        held,
        betas=(settings.beta1, settings.beta2),
        epsilon=settings.epsilon,
        weight_decay=group.weight_decay,
    )


def _unfit(what: str) -> UserError:
    return UserError(what, why=t("train.optimizer_state_why"), fix=t("train.optimizer_state_fix"))
