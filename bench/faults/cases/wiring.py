"""Faults of a blind trial in somebody else's step: an Adam of one's own, groups a schedule misses, clips that do nothing, gradients thrown away."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from bench.faults.case import case
from bench.faults.cases.foreign import Small, loss
from bench.faults.cases.loops import looped
from umsicht.guard import Declared

CLIP = 0.05


class OwnAdam(torch.optim.Optimizer):
    """Adam as people write it; `counter` says what the correction of the start counts."""

    def __init__(self, groups: Any, counter: str = "steps") -> None:
        super().__init__(groups, {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.0})
        self.counter, self.all = counter, 0

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """One update."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(group, parameter)

    def _move(self, group: dict[str, Any], parameter: torch.Tensor) -> None:
        state, gradient = self.state[parameter], parameter.grad
        assert gradient is not None
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
        state["step"] += 1
        self.all += 1
        steps = self.all if self.counter == "parameters" else state["step"]
        first, second = group["betas"]
        state["exp_avg"].lerp_(gradient, 1 - first)
        state["exp_avg_sq"].lerp_(gradient.square(), 1 - second)
        one, two = (1.0, 1.0) if self.counter == "nothing" else (1 - first**steps, 1 - second**steps)
        size = (state["exp_avg_sq"] / two).sqrt() + group["eps"]
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.addcdiv_(state["exp_avg"] / one, size, value=-group["lr"])


def grouped(model: Any, decay: float = 0.1) -> list[dict[str, Any]]:
    """Matrices with decay, vectors without."""
    return [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": decay},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]


def own(counter: str = "steps", decay: float = 0.1) -> dict[str, Any]:
    """A loop with an Adam of one's own."""
    model = Small()
    return looped(model=model, optimizer=OwnAdam(grouped(model, decay), counter))


case(
    "X23",
    "OPT-WIRING",
    "optimizer",
    {"foreign": lambda: own("nothing")},
    {"foreign": lambda: own("parameters")},
)


def backward(model: Any, batches: Any, between: Callable[[], Any] = lambda: None) -> None:
    """The gradient of the mean over all targets, micro-batch by micro-batch."""
    counts = [int((one["labels"][:, 1:] >= 0).sum()) for one in batches]
    for one, count in zip(batches, counts, strict=True):
        (loss(model(one["input_ids"], one["attention_mask"]), one["labels"]) * count / sum(counts)).backward()
        between()


def clipped(parameters: Callable[[Any], Iterable[torch.Tensor]], each: bool = False) -> dict[str, Any]:
    """A loop that clips what `parameters` gives, once or after each micro-batch."""
    model = Small()
    chosen = parameters(model)

    def step(model: Any, optimizer: Any, batches: Any) -> None:
        def clip() -> None:
            torch.nn.utils.clip_grad_norm_(chosen, CLIP)

        optimizer.zero_grad()
        backward(model, batches, clip if each else lambda: None)
        clip()
        optimizer.step()

    return looped(model=model, train_step=step, declared=Declared(clip=CLIP))


case(
    "X24",
    "OPT-WIRING",
    "training step",
    {"foreign": lambda: clipped(lambda model: iter([]))},
    {"foreign": lambda: clipped(lambda model: list(model.parameters()), each=True)},
)


def scheduled(groups: int, elsewhere: bool = False) -> dict[str, Any]:
    """A warm-up that moves the first `groups` of two groups, or a torch scheduler over one or another optimizer."""
    model = Small()
    optimizer = torch.optim.AdamW(grouped(model), lr=1e-3)
    done = {"steps": 0}

    def plan(step: int) -> float:
        return 1e-3 * min(1.0, (step + 1) / 10)

    def step(model: Any, optimizer: Any, batches: Any) -> None:
        for group in optimizer.param_groups[:groups]:
            group["lr"] = plan(done["steps"])
        done["steps"] += 1
        optimizer.zero_grad()
        backward(model, batches)
        optimizer.step()

    if elsewhere:
        other = torch.optim.AdamW(grouped(model), lr=1e-3)
        given: Any = torch.optim.lr_scheduler.LambdaLR(other, lambda number: 1 / (1 + number))
        return looped(model=model, optimizer=optimizer, schedule=given)
    return looped(model=model, optimizer=optimizer, train_step=step, schedule=plan)


case(
    "X25",
    "OPT-WIRING",
    "schedule",
    {"foreign": lambda: scheduled(2, elsewhere=True)},
    {"foreign": lambda: scheduled(1)},
)


def _late_clear(model: Any, optimizer: Any, batches: Any) -> None:
    backward(model, batches)
    optimizer.zero_grad()
    optimizer.step()


case(
    "X26",
    "OPT-WIRING",
    "training step|optimizer",
    {"foreign": lambda: looped(train_step=_late_clear)},
    {"foreign": lambda: own(decay=-0.1)},
)
