"""T18: a value that is not finite is found before the optimizer moves; its place by replay, its cause by tests in a fixed order."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from umsicht.findings import Finding
from umsicht.guard.monitors.evidence import keep_batch
from umsicht.guard.subject import numbers
from umsicht.tokens.batch import IGNORE
from umsicht.train.hooks import Hook, StopRun, View


@dataclass
class Replay:
    """What one replay of a batch saw: the first module whose output, and the first whose gradient, is not finite."""

    loss: float = math.nan
    forward: str = ""
    backward: str = ""
    kind: str = ""
    parameters: list[str] = field(default_factory=list)
    gradients: list[str] = field(default_factory=list)
    empty_rows: int = 0
    largest: float = 0.0
    operation: str = ""

    def same_as(self, other: Replay) -> bool:
        """Equal to the bit: the same software on the same numbers. Unequal points to hardware or to a race."""
        return (self.forward, self.backward, self.parameters, self.gradients, repr(self.loss)) == (
            other.forward,
            other.backward,
            other.parameters,
            other.gradients,
            repr(other.loss),
        )


class _Operations(TorchFunctionMode):
    """The first operation that turns finite numbers into others, and attention rows with nothing to look at."""

    def __init__(self, replay: Replay) -> None:
        super().__init__()
        self.replay = replay

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Pass the call on and look at its result."""
        kwargs = kwargs or {}
        output = function(*args, **kwargs)
        name = getattr(function, "__name__", "")
        if name == "scaled_dot_product_attention":
            mask = kwargs.get("attn_mask", args[3] if len(args) > 3 else None)
            if isinstance(mask, torch.Tensor):
                with torch._C.DisableTorchFunction():
                    allowed = mask if mask.dtype == torch.bool else torch.isfinite(mask)
                    self.replay.empty_rows = max(self.replay.empty_rows, int((~allowed.any(dim=-1)).sum()))
        if (
            not self.replay.operation
            and isinstance(output, torch.Tensor)
            and output.is_floating_point()
            and name not in _QUIET
        ):
            with torch._C.DisableTorchFunction():
                if not bool(torch.isfinite(output).all()):
                    given = [
                        value
                        for value in args
                        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel()
                    ]
                    if all(bool(torch.isfinite(value).all()) for value in given):
                        if name in ("softmax", "log_softmax") or not _is_mask(output, name):
                            self.replay.operation = name
                    elif name in ("softmax", "log_softmax") and given:
                        empty = torch.isneginf(given[0]).all(dim=-1)
                        if bool(empty.any()):
                            self.replay.empty_rows = max(self.replay.empty_rows, int(empty.sum()))
                            self.replay.operation = name
        return output


_QUIET = {
    "masked_fill",
    "masked_fill_",
    "full",
    "full_like",
    "where",
    "triu",
    "tril",
    "fill_",
    "new_full",
    "isfinite",
    "empty",
    "empty_like",
    "__get__",
    "__setitem__",
    "zeros",
}


def _is_mask(output: torch.Tensor, name: str) -> bool:
    """Minus infinity is how masks are written; only other values are alarming there."""
    return bool((torch.isfinite(output) | torch.isneginf(output)).all()) and name in (
        "add",
        "__add__",
        "sub",
        "mul",
        "__mul__",
        "log",
        "baddbmm",
        "add_",
    )


def _first_bad(value: Any) -> str:
    tensors = (
        [value]
        if isinstance(value, torch.Tensor)
        else [v for v in value if isinstance(v, torch.Tensor)]
        if isinstance(value, tuple | list)
        else []
    )
    for tensor in tensors:
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            return "nan" if bool(torch.isnan(tensor).any()) else "inf"
    return ""


def replay(module: nn.Module, compute: Callable[[], torch.Tensor]) -> Replay:
    """Compute the loss of a batch again with hooks on every module; gradients are left as they were."""
    found = Replay()
    handles: list[Any] = []
    names = {child: name or type(child).__name__ for name, child in module.named_modules()}

    def forward(child: nn.Module, _: Any, output: Any) -> None:
        if not found.forward:
            kind = _first_bad(output)
            if kind:
                found.forward, found.kind = names[child], kind

    def backward(child: nn.Module, _: Any, outputs: Any) -> None:
        if not found.backward and _first_bad(outputs):
            found.backward = names[child]

    for child in module.modules():
        if not list(child.children()):
            handles.append(child.register_forward_hook(forward))
            handles.append(child.register_full_backward_hook(backward))
    kept = [(parameter, parameter.grad) for parameter in module.parameters()]
    for parameter in module.parameters():
        parameter.grad = None
    try:
        with warnings.catch_warnings(), torch.enable_grad(), _Operations(found):
            warnings.simplefilter("ignore")
            loss = compute()
        found.loss = float(loss.detach())
        if loss.requires_grad:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                loss.backward()  # type: ignore[no-untyped-call]
        found.gradients = [
            n
            for n, p in module.named_parameters()
            if p.grad is not None and not bool(torch.isfinite(p.grad).all())
        ]
    except (RuntimeError, IndexError) as error:
        found.kind = f"raises {type(error).__name__}"
    finally:
        for handle in handles:
            handle.remove()
        for parameter, gradient in kept:
            parameter.grad = gradient
    found.parameters = [n for n, p in module.named_parameters() if not bool(torch.isfinite(p).all())]
    found.largest = max(
        (float(p.detach().abs().max()) for p in module.parameters() if p.numel()), default=0.0
    )
    return found


@dataclass(frozen=True)
class Facts:
    """What is known besides the replay. `rows` of the embedding table; `overgrown`: a rate has driven weights far off."""

    inputs: torch.Tensor | None
    targets: torch.Tensor | None
    rows: int
    overgrown: bool = False


def cause_of(found: Replay, again: Replay, facts: Facts) -> tuple[str, str]:
    """The likeliest cause, tested in this order, and where: (cause id, place)."""
    if not found.same_as(again):
        return "hardware", found.forward or found.backward or "step"
    if (
        facts.inputs is not None
        and facts.rows
        and (int(facts.inputs.max()) >= facts.rows or int(facts.inputs.min()) < 0)
    ):
        return "invalid-id", "rows"
    if found.empty_rows:
        return "attention-row-masked", found.forward or "attention"
    if facts.targets is not None and not bool((facts.targets != IGNORE).any()):
        return "no-active-target", "targets"
    if found.parameters or facts.overgrown:
        return "rate-too-large", found.parameters[0] if found.parameters else "optimizer"
    if found.operation in (
        "exp",
        "log",
        "log1p",
        "expm1",
        "exp_",
        "log_",
        "pow",
        "square",
        "cosh",
        "sinh",
        "logsumexp",
        "log_softmax",
    ):
        return "exp-log-overflow", found.forward or found.operation
    if found.operation in (
        "div",
        "true_divide",
        "__truediv__",
        "reciprocal",
        "rsqrt",
        "__rtruediv__",
        "div_",
        "rsqrt_",
        "mean",
        "std",
        "var",
        "norm",
        "__rdiv__",
    ):
        return "division-by-zero", found.forward or found.operation
    if found.operation:
        return "overflow", found.forward or found.operation
    if found.forward or found.gradients or found.backward:
        return "overflow", found.forward or found.backward or found.gradients[0]
    if not math.isfinite(found.loss):
        return "loss-itself", "loss"
    return "not-reproduced", "step"


class NonFiniteMonitor(Hook):
    """Stops before the step. `compute(model, batch)` is the loss of the run, for the replay."""

    name = "guard-nonfinite"
    sees_inside = True

    def __init__(
        self, compute: Callable[[Any, Any], torch.Tensor], tokenizer: Any = None, every: int = 50
    ) -> None:
        self.compute = compute
        self.tokenizer = tokenizer
        self.check_every = every
        self.loss_before = math.nan

    def after_backward(self, view: View) -> None:
        """Loss and gradient norm say in two numbers whether anything is wrong."""
        if math.isfinite(view.loss) and math.isfinite(view.grad_norm):
            self.loss_before = view.loss
            return
        raise StopRun(self.explain(view))

    def after_step(self, view: View) -> None:
        """Now and then the weights themselves: a loss can look well while one of them is lost."""
        if view.step % self.check_every == 0:
            self._weights(view)

    def _weights(self, view: View) -> None:
        norms = torch._foreach_norm([p.detach() for p in view.model.parameters()])
        sizes = torch.stack([norm.float().cpu() for norm in norms])
        if not bool(torch.isfinite(sizes).all()):
            name = [name for name, _ in view.model.named_parameters()][
                int((~torch.isfinite(sizes)).nonzero()[0])
            ]
            raise StopRun(
                Finding(
                    "NUMERIC/weights-not-finite",
                    "stop",
                    "run",
                    location=f"run: step {view.step}, {name}",
                    numbers=numbers(step=view.step, name=name, values=1, share=0.0),
                )
            )

    def explain(self, view: View) -> Finding:
        """Replay twice, name the first bad tensor and the likeliest cause, keep the batch."""
        model, batch = view.model, view.batch
        device = next(model.parameters()).device

        def compute() -> torch.Tensor:
            torch.manual_seed(view.step)
            return self.compute(model, batch.to(device))

        first, second = replay(model, compute), replay(model, compute)
        table = max((m.num_embeddings for m in model.modules() if isinstance(m, nn.Embedding)), default=0)
        facts = Facts(batch.inputs, batch.targets, table, _overgrown(model))
        cause, place = cause_of(first, second, facts)
        reproduced = bool(
            first.forward or first.gradients or not math.isfinite(first.loss) or first.parameters
        )
        if not reproduced and cause == "not-reproduced":
            cause = "hardware"
        finding = Finding(
            f"NUMERIC/{cause}",
            "stop",
            "run",
            location=f"run: step {view.step}, {place}",
            numbers={
                **numbers(
                    step=view.step,
                    loss=view.loss,
                    grad_norm=view.grad_norm,
                    rate=view.lr,
                    first_forward=first.forward or "—",
                    first_backward=first.backward or (first.gradients[0] if first.gradients else "—"),
                    operation=first.operation or "—",
                    replays="equal" if first.same_as(second) and reproduced else "different",
                    largest=first.largest,
                    loss_before=self.loss_before,
                ),
            },
        )
        keep_batch(view, finding, self.tokenizer)
        return finding


def _overgrown(model: nn.Module) -> bool:
    """Whether one matrix has grown far beyond the usual: finite weights do that where the rate is too large."""
    sizes = [
        float(p.detach().float().square().mean().sqrt())
        for p in model.parameters()
        if p.dim() >= 2 and bool(torch.isfinite(p).all())
    ]
    usual = sorted(sizes)[len(sizes) // 2] if sizes else 1.0
    largest = max(sizes, default=0.0)
    return largest > 50 * max(usual, 1e-6) or largest > 100
