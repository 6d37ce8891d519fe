"""Faults in somebody else's loop that no row of the catalogue describes: steps, schedules, adapters, evaluations, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from bench.faults.case import case
from bench.faults.cases.foreign import LENGTH, Small, batch, loss, subject
from umsicht.guard import Declared


class Adapted(nn.Module):
    """A linear layer and two small factors beside it."""

    def __init__(self, base: nn.Linear, seed: int, zero: bool = False) -> None:
        super().__init__()
        self.base = base
        generator = torch.Generator().manual_seed(seed)
        down = 0.2 * torch.randn(4, base.in_features, generator=generator)
        self.down = nn.Parameter(torch.zeros_like(down) if zero else down)
        self.up = nn.Parameter(torch.zeros(base.out_features, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Both added."""
        both: torch.Tensor = self.base(x) + 2 * functional.linear(functional.linear(x, self.down), self.up)
        return both


def adapted(frozen: Callable[[str], bool] = lambda name: True, zero: tuple[int, ...] = ()) -> dict[str, Any]:
    """Adapters on the plain model; what is declared frozen and what is frozen may differ."""
    model = Small()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not frozen(name))
    for index, block in enumerate(model.blocks):
        block.qkv = Adapted(block.qkv, 2 * index, zero=index in zero)
        block.up = Adapted(block.up, 2 * index + 1, zero=index in zero)
    names = tuple(n for n, _ in model.named_parameters() if not n.endswith((".down", ".qkv.up", ".up.up")))
    names = tuple(n for n in names if not n.endswith(("qkv.down", "up.down")))
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, weight_decay=0.0)
    return looped(model=model, optimizer=optimizer, declared=Declared(frozen=names))


def step(model: Any, optimizer: Any, batches: Any, between: Callable[[], Any] = lambda: None) -> None:
    """One update over some micro-batches, divided by all their targets."""
    optimizer.zero_grad()
    counts = [int((one["labels"][:, 1:] >= 0).sum()) for one in batches]
    for one, count in zip(batches, counts, strict=True):
        if count:
            value = loss(model(one["input_ids"], one["attention_mask"]), one["labels"])
            (value * count / sum(counts)).backward()
        between()
    optimizer.step()


def evaluate(model: Any, batches: Any) -> float:
    """Nats a target, summed and then divided."""
    was = model.training
    model.eval()
    nats = count = 0.0
    with torch.no_grad():
        for one in batches:
            targets = int((one["labels"][:, 1:] >= 0).sum())
            if targets:
                nats += targets * float(loss(model(one["input_ids"], one["attention_mask"]), one["labels"]))
                count += targets
    model.train(was)
    return nats / count


def looped(**changes: Any) -> dict[str, Any]:
    """A healthy loop: model, optimizer, step and evaluation."""
    made = subject(**{"train_step": step, "evaluate": evaluate, **changes})
    if "optimizer" not in made:
        made["optimizer"] = torch.optim.AdamW(made["model"].parameters(), lr=1e-3, weight_decay=0.0)
    return made


case(
    "X1",
    "OPT-WIRING",
    "optimizer",
    {"foreign": lambda: adapted(frozen=lambda name: False)},
    {"foreign": lambda: adapted(frozen=lambda name: name != "blocks.1.after.weight")},
)
case(
    "X2",
    "OPT-WIRING NUMERIC",
    "gradient|initialisation",
    {"foreign": lambda: adapted(zero=(0, 1))},
    {"foreign": lambda: adapted(zero=(1,))},
)


def _dropping(name: str) -> dict[str, Any]:
    """Dropout that a step switches off, wholly or in its last steps."""
    model = Small()
    model.norm = nn.Sequential(model.norm, nn.Dropout(0.1))
    done = {"steps": 0}

    def planted(model: Any, optimizer: Any, batches: Any) -> None:
        done["steps"] += 1
        model.train(False) if name == "always" or done["steps"] > 1 else model.train()
        step(model, optimizer, batches)

    return looped(model=model, train_step=planted)


case(
    "X3",
    "OPT-WIRING",
    "training step",
    {"foreign": lambda: _dropping("always")},
    {"foreign": lambda: _dropping("later")},
)


def _scheduled(per_micro_batch: bool) -> dict[str, Any]:
    """A schedule moved once a micro-batch, or twice a step."""
    model = Small()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda number: 1 / (1 + 0.1 * number))

    def planted(model: Any, optimizer: Any, batches: Any) -> None:
        if per_micro_batch:
            step(model, optimizer, batches, schedule.step)
        else:
            step(model, optimizer, batches)
            schedule.step()
            schedule.step()

    return looped(model=model, optimizer=optimizer, train_step=planted, schedule=schedule)


case(
    "X4",
    "OPT-WIRING",
    "schedule",
    {"foreign": lambda: _scheduled(True)},
    {"foreign": lambda: _scheduled(False)},
)


def _near(width: int, layers: tuple[int, ...]) -> dict[str, Any]:
    """Attention that sees only the last few tokens."""
    model = Small()
    for index in layers:
        block = model.blocks[index]
        real = block.forward
        where = torch.arange(LENGTH + 8)
        close = (where[:, None] - where) < width

        def forward(x: torch.Tensor, allowed: torch.Tensor, _real: Any = real, _close: Any = close) -> Any:
            seq = x.shape[1]
            return _real(x, allowed & _close[:seq, :seq])

        block.forward = forward
    return looped(model=model)


case(
    "X5",
    "CONTEXT",
    "model",
    {"foreign": lambda: _near(3, (0, 1))},
    {"foreign": lambda: _near(11, (0, 1))},
)


def _hooked(factor: float, pattern: str) -> dict[str, Any]:
    """A hook that scales the gradient of some tensors."""
    model = Small()
    for name, parameter in model.named_parameters():
        if pattern in name:
            parameter.register_hook(lambda gradient: gradient * factor)
    return looped(model=model)


class _Wrong(torch.autograd.Function):
    """A hand-written GELU whose backward forgets a term."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return functional.gelu(x)

    @staticmethod
    def backward(ctx: Any, slope: torch.Tensor) -> torch.Tensor:  # type: ignore[override]  # one input, one slope
        (x,) = ctx.saved_tensors
        return slope * 0.5 * (1 + torch.erf(x / 2**0.5))


def _handmade() -> dict[str, Any]:
    model = Small()
    block = model.blocks[1]
    real = block.down.forward
    block.down.forward = lambda grown: real(_Wrong.apply(grown))
    return looped(model=model)


case(
    "X6",
    "NUMERIC OPT-WIRING",
    "gradient",
    {"foreign": lambda: _hooked(10.0, "embed")},
    {"foreign": lambda: _hooked(0.8, "blocks.1.qkv.bias")},
)
case(
    "X7",
    "NUMERIC OPT-WIRING",
    "gradient",
    {"foreign": _handmade},
    {"foreign": lambda: _detached()},
)


def _detached() -> dict[str, Any]:
    """Half of a block's input carries no gradient."""
    model = Small()
    block = model.blocks[0]
    real = block.forward
    block.forward = lambda x, allowed: real(0.5 * x + 0.5 * x.detach(), allowed)
    return looped(model=model)


def _meddling(part: str) -> Callable[[Any, Any], float]:
    """An evaluation that leaves something behind."""

    def planted(model: Any, batches: Any) -> float:
        found = evaluate(model, batches)
        if part == "weights":
            with torch.no_grad():
                model.lm_head.weight.add_(1e-6)
        else:
            loss(model(batches[0]["input_ids"]), batches[0]["labels"]).backward()
        return found

    return planted


case(
    "X8",
    "EVAL-VALIDITY",
    "evaluation",
    {"foreign": lambda: looped(evaluate=_meddling("weights"))},
    {"foreign": lambda: looped(evaluate=_meddling("gradients"))},
)
case(
    "X9",
    "EVAL-VALIDITY",
    "evaluation",
    {"foreign": lambda: looped(evaluate=lambda m, b: evaluate(m, b[:-1] or b))},
    {
        "foreign": lambda: looped(
            evaluate=lambda m, b: evaluate(m, [{k: v[:, :-1] for k, v in one.items()} for one in b])
        )
    },
)
case(
    "X10",
    "LOAD-MAP",
    "evaluation",
    {"foreign": lambda: looped(declared=Declared(freshly_initialised=False))},
    {"foreign": lambda: looped(model=_prefixed(), declared=Declared(freshly_initialised=False))},
)


def _prefixed() -> Small:
    """A trained state whose names carry a wrapper's prefix, loaded without asking for every name."""
    trained, fresh = Small(), Small()
    state = {f"_orig_mod.{name}": value + 0.1 for name, value in trained.state_dict().items()}
    fresh.load_state_dict(state, strict=False)
    return fresh


def _micro(change: Callable[[Any], Any]) -> Callable[..., None]:
    """A step that is handed something else than the batches."""
    return lambda model, optimizer, batches: step(model, optimizer, change(batches))


case(
    "X11",
    "LOSS-NORM OPT-WIRING",
    "training step",
    {"foreign": lambda: looped(train_step=_micro(lambda b: b[:1]))},
    {"foreign": lambda: looped(train_step=_micro(lambda b: b[:-1] or b))},
)


def _stale(names: tuple[str, ...]) -> dict[str, Any]:
    """The optimizer was made before a part of the model was made anew."""
    model = Small()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    for name in names:
        old = getattr(model, name)
        fresh = (
            nn.Linear(old.in_features, old.out_features, bias=False)
            if name == "lm_head"
            else nn.LayerNorm(32)
        )
        if name == "lm_head":
            nn.init.normal_(fresh.weight, std=0.05)
        setattr(model, name, fresh)
    return looped(model=model, optimizer=optimizer)


case(
    "X12",
    "OPT-WIRING",
    "optimizer",
    {"foreign": lambda: _stale(("lm_head", "norm"))},
    {"foreign": lambda: _stale(("norm",))},
)


def _softened(twice: bool) -> Callable[..., torch.Tensor]:
    """A loss on probabilities instead of logits, or on logits at another temperature."""

    def planted(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return loss(logits.softmax(-1) if twice else logits / 1.3, labels)

    return planted


case(
    "X13",
    "LOSS-NORM",
    "loss",
    {"foreign": lambda: subject(loss=_softened(True))},
    {"foreign": lambda: subject(loss=_softened(False))},
)


def _solved(batches: list[Any]) -> dict[str, Any]:
    """A base that knows the text it is to be tuned on by heart: the evaluation is in its training data."""
    model = Small()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    for _ in range(200):
        for one in batches:
            optimizer.zero_grad()
            loss(model(one["input_ids"]), one["labels"]).backward()
            optimizer.step()
    return looped(model=model, batches=batches, declared=Declared(freshly_initialised=False))


case(
    "EV5",
    "EVAL-VALIDITY",
    "evaluation|loss",
    {"foreign": lambda: _solved([_tuned(0)])},
    {"foreign": lambda: _solved([_tuned(0), _tuned(1)])},
)


def _tuned(number: int) -> dict[str, torch.Tensor]:
    """Rows whose second half alone is learned."""
    one = batch(number)
    one["labels"][:, :12] = -100
    return one
