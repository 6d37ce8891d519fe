"""T9: the weights before training: first loss against ln V, scale of every tensor against its like, rows of the embedding."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional

from umsicht.findings import Finding
from umsicht.guard.adapt_model import random_ids
from umsicht.guard.subject import Subject, numbers

STAGE = "initialisation"
GAP = 0.5
LAYER = re.compile(r"(?<![A-Za-z0-9])\d+(?![A-Za-z0-9])")


def initialisation(subject: Subject) -> Iterator[Finding]:
    """Odd ones out among equals, twins, damaged rows, then the loss on random targets."""
    module = subject.need_module()
    if any(finding.grade == "stop" for finding in unusable(module)):
        return
    fresh = subject.looks_fresh
    yield from _odd_one_out(module, fresh)
    yield from _twins(module)
    yield from _rows(subject, module)
    if fresh:
        yield from _first_loss(subject)
        yield from _layer_scale(subject, module)


def role(name: str) -> str:
    """The name with its layer numbers left out: what the tensor is, whatever layer it is in."""
    return LAYER.sub("#", name)


def unusable(module: nn.Module) -> Iterator[Finding]:
    """Weights that no initialisation gives: NaN, infinity, or values of uninitialised memory."""
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if not tensor.is_floating_point() or tensor.numel() == 0 or tensor.is_meta:
            if tensor.is_meta:
                yield Finding(
                    "LOAD-MAP/not-materialised",
                    "stop",
                    "dtypes",
                    location=f"model: {name}",
                    numbers=numbers(name=name),
                )
            continue
        if "mask" in name.rsplit(".", 1)[-1] or (
            name.rsplit(".", 1)[-1] == "bias" and isinstance_buffer(module, name)
        ):
            continue
        wide = tensor.detach().float()
        finite = torch.isfinite(wide)
        if not bool(finite.all()):
            count = int((~finite).sum())
            yield Finding(
                "NUMERIC/weights-not-finite",
                "stop",
                "dtypes",
                location=f"model: {name}",
                numbers=numbers(name=name, values=count, share=count / tensor.numel()),
            )
            return
        largest = float(wide.abs().max())
        if largest > 1e4:
            yield Finding(
                "NUMERIC/weights-huge",
                "stop",
                "dtypes",
                location=f"model: {name}",
                numbers=numbers(name=name, largest=largest),
            )
            return


def isinstance_buffer(module: nn.Module, name: str) -> bool:
    """True where `name` is a buffer: some models keep their causal mask as one called bias."""
    return name in dict(module.named_buffers())


def _odd_one_out(module: nn.Module, fresh: bool) -> Iterator[Finding]:
    """Tensors of the same role in different layers must be alike in scale; one that is not was initialised by another rule, or not at all."""
    families: dict[str, list[tuple[str, float, float, int]]] = defaultdict(list)
    for name, parameter in module.named_parameters():
        if parameter.numel() < 2 or not parameter.is_floating_point():
            continue
        wide = parameter.detach().float()
        families[f"{role(name)}|{tuple(parameter.shape)}"].append(
            (name, float(wide.std()), float(wide.mean()), parameter.numel())
        )
    for members in families.values():
        if len(members) < 2:
            continue
        spreads = torch.tensor([member[1] for member in members])
        middle = float(spreads.median())
        logs = [math.log((member[1] + 1e-8) / (middle + 1e-8)) for member in members]
        worst = max(range(len(members)), key=lambda index: abs(logs[index]))
        name, spread, _mean, size = members[worst]
        # Scale by depth (1/sqrt(2·layer)) stays below a factor of 2 between neighbours; training spreads it a little more.
        limit = math.log(1.0 + 6.0 / math.sqrt(2 * size)) + (math.log(1.6) if fresh else math.log(8.0))
        others = [logs[index] for index in range(len(members)) if index != worst]
        if abs(logs[worst]) > limit and abs(logs[worst]) > 2.0 * max(
            (abs(value) for value in others), default=0.0
        ):
            if len(members) == 2 and fresh and _depth_rule(spread, middle):
                continue
            yield Finding(
                "NUMERIC/odd-tensor",
                "stop" if fresh else "warn",
                STAGE,
                location=f"initialisation: {name}",
                numbers=numbers(
                    name=name,
                    std=spread,
                    usual=middle,
                    factor=math.exp(abs(logs[worst])),
                    layers=len(members),
                ),
            )
            return
        means = [(abs(member[2]) - abs(members[0][2]), member) for member in members]
        off = max(members, key=lambda member: abs(member[2] - _median([m[2] for m in members])))
        gap = abs(off[2] - _median([m[2] for m in members]))
        noise = max(middle, 1e-6) / math.sqrt(size)
        if fresh and gap > 12 * noise and gap > 0.2 * max(middle, 1e-3) and means:
            yield Finding(
                "NUMERIC/odd-tensor",
                "stop",
                STAGE,
                location=f"initialisation: {off[0]}",
                numbers=numbers(
                    name=off[0], std=off[1], usual=middle, factor=gap / noise, layers=len(members)
                ),
            )
            return


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _depth_rule(spread: float, middle: float) -> bool:
    """Two layers whose scales differ by no more than a depth rule would make them differ."""
    low, high = sorted((spread, middle))
    return low > 0 and high / low < 1.5


def _twins(module: nn.Module) -> Iterator[Finding]:
    """Two random tensors that are equal were drawn from the same seed, or copied."""
    seen: dict[tuple[tuple[int, ...], float, float], str] = {}
    for name, parameter in module.named_parameters():
        if parameter.dim() < 2 or parameter.numel() < 64:
            continue
        wide = parameter.detach().float()
        if float(wide.std()) == 0.0:
            continue
        key = (tuple(parameter.shape), float(wide.sum()), float(wide.square().sum()))
        other = seen.get(key)
        if other is not None and torch.equal(parameter, module.get_parameter(other)):
            yield Finding(
                "LOAD-MAP/twins",
                "stop",
                STAGE,
                location=f"initialisation: {name}",
                numbers=numbers(name=name, twin=other),
            )
            return
        seen.setdefault(key, name)


def _rows(subject: Subject, module: nn.Module) -> Iterator[Finding]:
    """Rows of embedding and head that are zero, equal, or of another size than their neighbours."""
    view = subject.need_model()
    table = view.input_embedding
    tables = {"embedding": table.weight if table is not None else None, "head": view.head_weight}
    done: set[int] = set()
    limit = subject.usable_ids if subject.examples else None
    for name, weight in tables.items():
        if weight is None or weight.dim() != 2 or weight.data_ptr() in done:
            continue
        done.add(weight.data_ptr())
        wide = weight.detach().float()[: limit or weight.shape[0]]
        norms = wide.norm(dim=1)
        middle = float(norms.median())
        padding = getattr(table, "padding_idx", None) if name == "embedding" else None
        if middle == 0.0:
            continue
        low = norms < 0.05 * middle
        high = norms > 20 * middle
        if padding is not None and padding < low.shape[0]:
            low[padding] = False
        bad = low | high
        if bool(bad.any()):
            first = int(bad.nonzero()[0])
            yield Finding(
                "NUMERIC/embedding-rows",
                "stop",
                STAGE,
                location=f"initialisation: {name} row {first}",
                numbers=numbers(
                    rows=int(bad.sum()),
                    share=float(bad.float().mean()),
                    norm=float(norms[first]),
                    usual=middle,
                    table=name,
                ),
            )
            return
        yield from _embedding_scale(subject, name, weight, wide)


def _embedding_scale(
    subject: Subject, name: str, weight: torch.Tensor, wide: torch.Tensor
) -> Iterator[Finding]:
    """An embedding far smaller than any published rule: the first norm divides by almost nothing."""
    if name != "embedding" or not subject.looks_fresh:
        return
    spread = float(wide.std())
    if spread < 2e-3 * min(1.0, 8 / math.sqrt(weight.shape[1])):
        yield Finding(
            "NUMERIC/embedding-scale",
            "stop",
            STAGE,
            location="initialisation: embedding",
            numbers=numbers(std=spread, width=int(weight.shape[1])),
        )


def _first_loss(subject: Subject) -> Iterator[Finding]:
    """Loss on random text with random targets: an untrained model can only guess, which costs ln V nats."""
    view = subject.need_model()
    example = subject.small
    rows, seq = example.ids.shape
    limit = subject.usable_ids
    ids = random_ids(view, max(2, rows), seq, limit, subject.seed + 5)
    targets = random_ids(view, max(2, rows), seq, limit, subject.seed + 6)
    with torch.no_grad(), view.mode(training=False):
        logits = view.logits(ids).float()
        loss = float(functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)))
    expected = math.log(subject.vocab)
    allowed = subject.declared.init_loss_gap or GAP
    gap = loss - expected
    counts = numbers(loss=loss, expected=expected, gap=gap, vocab=subject.vocab, spread=float(logits.std()))
    if not math.isfinite(loss):
        yield Finding("NUMERIC/first-loss-not-finite", "stop", STAGE, location="model", numbers=counts)
    elif gap > allowed:
        yield Finding("NUMERIC/first-loss", "stop", STAGE, location="initialisation", numbers=counts)


def _layer_scale(subject: Subject, module: nn.Module) -> Iterator[Finding]:
    """The residual stream from layer to layer: a block that multiplies it several times over, or empties it, is not initialised like its peers."""
    view = subject.need_model()
    blocks = _blocks(module)
    if len(blocks) < 2:
        return
    sizes: dict[str, float] = {}

    def listen(name: str):  # type: ignore[no-untyped-def]  # a hook of torch's own shape
        def hook(_: nn.Module, inputs: object, output: object) -> None:
            tensor = output[0] if isinstance(output, tuple) else output
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                sizes[name] = float(tensor.float().square().mean().sqrt())

        return hook

    handles = [block.register_forward_hook(listen(name)) for name, block in blocks]
    try:
        with torch.no_grad(), view.mode(training=False):
            view.logits(subject.small.ids, **subject.small.context)
    finally:
        for handle in handles:
            handle.remove()
    names = [name for name, _ in blocks if name in sizes]
    for before, after in zip(names, names[1:], strict=False):
        growth = sizes[after] / max(sizes[before], 1e-12)
        if not math.isfinite(growth) or growth > 30 or growth < 1 / 30:
            yield Finding(
                "NUMERIC/layer-scale",
                "stop",
                STAGE,
                location=f"initialisation: {after}",
                numbers=numbers(growth=growth, rms=sizes[after], before=sizes[before]),
            )
            return


def _blocks(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """The repeated blocks of a model: the longest list of modules of one kind."""
    best: list[tuple[str, nn.Module]] = []
    for prefix, child in module.named_modules():
        if isinstance(child, nn.ModuleList) and len(child) > len(best):
            best = [(f"{prefix}.{index}" if prefix else str(index), item) for index, item in enumerate(child)]
    return best
