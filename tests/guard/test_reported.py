"""Faults of public bug reports, replayed in loops that are not Umsicht's, are named; their healthy twins are not."""

from __future__ import annotations

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from bench.faults import ranks_watched
from bench.faults.case import Case
from bench.faults.cases import CASES
from bench.faults.cases.foreign import Small
from bench.faults.cases.reported import passes
from bench.faults.judge import judge
from bench.faults.work import plain

from umsicht.guard import check, transformers_arguments
from umsicht.guard.transformers_loss import AccumulatedLoss
from umsicht.guard.watch_fed import FirstBatches
from umsicht.guard.watch_log import WatchLog
from umsicht.guard.watch_rows import FedRows

PLANTED = {case.name: case for case in CASES if case.fault in {f"X{n}" for n in range(35, 45)}}
TOGETHER = ("X41", "X42")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def found(case: Case, folder: Path) -> list[Any]:
    return check(**case.foreign()) if case.foreign else case.verb(folder) if case.verb else []


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.long] if n.startswith(TOGETHER) or n.endswith("loud") else [])
        for n in PLANTED
    ],
)
def test_a_reported_fault_is_named(name: str, tmp_path: Path) -> None:
    case = PLANTED[name]
    findings = found(case, tmp_path)
    assert judge(case, {"named": plain(findings)}) == "named", findings


@pytest.mark.long
@pytest.mark.parametrize("plant", ["healthy", "healthy-by-hand", "healthy-parted"])
def test_processes_that_train_together_are_left_alone(plant: str, tmp_path: Path) -> None:
    assert ranks_watched.findings(tmp_path, plant) == []
    assert (tmp_path / "watched/metrics.jsonl").exists()
    assert (tmp_path / "watched/ranks/1/metrics.jsonl").exists()


@pytest.mark.long
def test_a_wrapper_that_is_passed_by_is_named(tmp_path: Path) -> None:
    assert [f.id for f in ranks_watched.findings(tmp_path, "wrapper-bypassed")] == ["RANK/parameters-differ"]


def said(batches: list[torch.Tensor], folder: Path, repeats_are_fine: bool = False) -> list[str]:
    log = WatchLog(folder)
    rows = FedRows(log, repeats_are_fine)
    for ids in batches:
        log.steps += 1
        rows.look([ids])
    return [f.id for f in log.findings]


def test_a_pass_in_the_order_of_the_last_is_told_from_rows_that_come_again(tmp_path: Path) -> None:
    assert said(passes(3, shuffled=False), tmp_path) == ["DATA-ORDER/same-order"]
    assert said(passes(3, shuffled=True), tmp_path) == ["DATA-ORDER/repeats"]
    assert said(passes(3, shuffled=True), tmp_path, repeats_are_fine=True) == []
    assert said(passes(1, shuffled=True)[:1] * 20, tmp_path) == ["DATA-ORDER/repeats"]


class GPTLMHeadModel(Small):
    """Named as models of transformers are, which shift the labels themselves."""

    config = SimpleNamespace(model_type="gpt")


def read(change: Any, folder: Path) -> list[str]:
    """What the first batches say after `change(ids, mask, labels)` has made their labels."""
    log = WatchLog(folder)
    first = FirstBatches(log, GPTLMHeadModel())
    for ids in passes(1, shuffled=True):
        mask = torch.ones_like(ids)
        mask[1:, 18:] = 0
        labels = change(ids, mask, ids.masked_fill(mask == 0, -100))
        first.see(ids, {"attention_mask": mask, "labels": labels})
    return [f.id for f in log.findings]


def test_first_batches_say_what_is_wrong_with_their_labels(tmp_path: Path) -> None:
    assert read(lambda ids, mask, labels: labels, tmp_path) == []
    assert read(lambda ids, mask, labels: ids, tmp_path) == ["TARGET-MASK/pad-active"]
    assert "TARGET-SHIFT/offset" in read(lambda ids, mask, labels: labels.roll(-1, 1), tmp_path)
    nothing = read(lambda ids, mask, labels: torch.full_like(ids, -100), tmp_path)
    assert nothing == ["TARGET-MASK/nothing-active"]


def arguments(**changes: Any) -> Any:
    plain = {
        "metric_for_best_model": "eval_loss",
        "load_best_model_at_end": True,
        "greater_is_better": False,
        "save_strategy": "steps",
        "get_warmup_steps": lambda steps: 10,
    }
    return SimpleNamespace(**{**plain, **changes})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"greater_is_better": True}, ["EVAL-VALIDITY/best-is-worst"]),
        ({"greater_is_better": True, "metric_for_best_model": "perplexity"}, ["EVAL-VALIDITY/best-is-worst"]),
        ({"greater_is_better": True, "metric_for_best_model": "eval_accuracy"}, []),
        ({"greater_is_better": True, "metric_for_best_model": "answer"}, []),
        ({"greater_is_better": True, "load_best_model_at_end": False}, []),
        ({"get_warmup_steps": lambda steps: 2 * steps}, ["OPT-WIRING/warm-up-too-long"]),
    ],
)
def test_arguments_of_a_trainer_are_judged(changes: dict[str, Any], expected: list[str]) -> None:
    assert [f.id for f in transformers_arguments.judge(arguments(**changes), 100)] == expected


class Answering(torch.nn.Module):
    """A model that answers with an object that holds its logits."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Small()

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        return SimpleNamespace(logits=self.inner(input_ids))


@pytest.mark.parametrize(("times", "expected"), [(1.0, None), (4.0, "LOSS-NORM/divisor"), (2.5, None)])
def test_a_sum_over_micro_batches_is_told_from_their_mean(times: float, expected: str | None) -> None:
    model, nats = Answering(), []
    watched = AccumulatedLoss(model, 4)
    for ids in passes(1, shuffled=True)[:4]:
        logits = model(input_ids=ids, labels=ids).logits
        nats.append(
            float(torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()))
        )
    finding = watched.logged(times * sum(nats) / 4, steps=1)
    assert (finding.id if finding else None) == expected


def test_a_monitor_lets_go_of_the_model(tmp_path: Path) -> None:
    model = Answering()
    before = copy.copy(model._forward_hooks)
    AccumulatedLoss(model, 4).close()
    assert model._forward_hooks == before
