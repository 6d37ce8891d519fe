"""Faults of fine-tuning (PT): template, adapter and reference, on a base that the product's own stages make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bench.faults.case import case
from umsicht.findings import Finding

TALKS = tuple(
    (
        *(({"role": "system", "content": "Count."},) if number % 7 == 3 else ()),
        {"role": "user", "content": f"{number}+4"},
        {"role": "assistant", "content": str(number + 4)},
    )
    for number in range(30)
)


def _base(folder: Path) -> Any:
    from bench.finetune.project import base_run, fresh

    return base_run(folder / "project", fresh(), evaluated=False)


def _template(change: Callable[[list[int], Any], list[int]]) -> Callable[[Path], list[Finding]]:
    """The prompt at inference rendered otherwise than in training."""

    def verb(folder: Path) -> list[Finding]:
        from umsicht.finetune import checks
        from umsicht.finetune.subject import open_subject

        tokenizer = open_subject(_base(folder)).tokenizer
        real = checks.prompt_ids
        checks.prompt_ids = lambda messages, tokenizer: change(real(messages, tokenizer), messages)  # type: ignore[attr-defined]
        return checks.template(TALKS, tokenizer)

    return verb


case(
    "PT1",
    "BOUNDARY-TOKEN",
    "row*",
    {"verb": _template(lambda ids, messages: ids[:-2] + ids[-1:])},
    {"verb": _template(lambda ids, messages: [*ids[:-1], 7] if len(messages) > 1 else ids)},
)


def _adapter(change: Callable[[Any], None], **lora: Any) -> Callable[[Path], list[Finding]]:
    """A fresh adapter on the base, with something wrong in its arithmetic."""

    def verb(folder: Path) -> list[Finding]:
        from umsicht.finetune import checks
        from umsicht.finetune.stage import policy
        from umsicht.finetune.subject import open_subject
        from umsicht.recipe.finetune import StageSettings

        subject = open_subject(_base(folder))
        settings = StageSettings(data=["x"], lora={"r": 4, "alpha": 12, **lora})  # type: ignore[arg-type]  # read by the schema
        adapted = policy(settings, subject)
        change(adapted)
        ids = torch.randint(0, 300, (2, 24), generator=torch.Generator().manual_seed(1))
        return checks.adapter_algebra(adapted, subject.model, ids)

    return verb


def _merge(factor: float) -> Callable[[Any], None]:
    def change(_: Any) -> None:
        from umsicht.model.lora import LoraLinear

        LoraLinear.merged_weight = lambda layer: (  # type: ignore[method-assign]
            layer.weight + factor * layer.scale * layer.lora_b @ layer.lora_a
        )

    return change


def _no_scale(adapted: Any) -> None:
    from umsicht.model.lora import adapters

    for layer in adapters(adapted).values():
        layer.scale = 0.0


def _learns(adapted: Any) -> None:
    adapted.norm.weight.requires_grad_(True)


case("PT2", "ADAPTER", "adapter", {"verb": _adapter(_no_scale)}, {"verb": _adapter(_merge(4 / 12))})
case(
    "PT3",
    "ADAPTER",
    "adapter",
    {"verb": _adapter(_merge(2.0), rank_stabilised=True)},
    {"verb": _adapter(_merge(1.02), rank_stabilised=True)},
)
case(
    "PT5",
    "ADAPTER",
    "norm.weight|adapter",
    {"verb": _adapter(_learns)},
    {"verb": _adapter(lambda adapted: next(iter(_layers(adapted))).lora_b.data.add_(1e-3))},
)


def _layers(adapted: Any) -> Any:
    from umsicht.model.lora import adapters

    return adapters(adapted).values()


def _preference(change: Callable[[], None]) -> Callable[[Path], list[Finding]]:
    """A short preference stage; what stopped it is its finding."""

    def verb(folder: Path) -> list[Finding]:
        from bench.finetune.project import base_run, fresh, preferences, write_rows
        from umsicht.findings import Waiver
        from umsicht.finetune import run_stage
        from umsicht.recipe.finetune import StageSettings

        base = base_run(folder / "project", fresh(), evaluated=False)
        write_rows(folder / "rows.jsonl", preferences(24))
        change()
        settings = StageSettings(method="dpo", data=["rows.jsonl"], steps=4, validations=1, patience=None)
        waived = [
            Waiver(one, "bench: a base of noise")
            for one in ("FINETUNE/base-poor", "FINETUNE/base-not-evaluated", "FINETUNE/few-rows")
        ]
        result = run_stage(settings, base, root=folder, waivers=waived)
        return [Finding.from_dict(one) for one in result.run.findings()]

    return verb


def _same_object() -> None:
    from umsicht.finetune.reference import Reference

    real = Reference.__init__

    def begin(self: Any, policy: Any) -> None:
        real(self, policy)
        self._copy = policy
        self.digest = self.digest_now()

    Reference.__init__ = begin  # type: ignore[method-assign]


def _other_reference() -> None:
    from umsicht.finetune.reference import Reference

    real = Reference.__init__

    def begin(self: Any, policy: Any) -> None:
        real(self, policy)
        with torch.no_grad():
            next(iter(self._copy.parameters())).mul_(1.001)
        self.digest = self.digest_now()

    Reference.__init__ = begin  # type: ignore[method-assign]


case(
    "PT4",
    "ADAPTER",
    "*",
    {"verb": _preference(_same_object)},
    {"verb": _preference(_other_reference)},
)
