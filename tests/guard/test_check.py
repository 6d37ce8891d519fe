"""`guard.check` on a module that Umsicht did not write: quiet where it is healthy, and naming family and place where it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.guard.models import VOCAB, Nano, cross_entropy, grouped, hugging, pairs
from torch import nn
from torch.nn import functional

from umsicht.findings import UserError
from umsicht.guard import Declared, check


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def healthy(**changes: Any) -> dict[str, Any]:
    model = changes.pop("model", None) or Nano()
    return {"model": model, "batches": pairs(), "optimizer": grouped(model), **changes}


def test_healthy_module_passes() -> None:
    model = Nano(dropout=0.1)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(4)
    expected = torch.rand(1)
    torch.manual_seed(4)
    report = check(**healthy(model=model), all=True)
    assert torch.equal(torch.rand(1), expected), "the global random state was disturbed"
    assert [f.id for f in report if f.grade != "note"] == []
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.training and all(p.grad is None for p in model.parameters())


def shifted_twice(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return cross_entropy(logits[:, :-1], targets[:, 1:])


def copies(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return cross_entropy(logits[:, 1:], targets[:, :-1])


def flattened(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.flatten(0, 1)[:-1], labels.flatten()[1:])


def of_rows(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    nats = functional.cross_entropy(logits.transpose(1, 2), targets, ignore_index=-100, reduction="none")
    return (nats.sum(1) / (targets >= 0).sum(1).clamp_min(1)).mean()


def over_everything(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (
        functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")
        / targets.numel()
    )


def whole(model: Nano) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda ids: model(ids, ids)[0]


@pytest.mark.parametrize(
    ("loss", "family", "place"),
    [
        (shifted_twice, "TARGET-SHIFT", "loss"),
        (copies, "TARGET-SHIFT", "loss"),
        (of_rows, "LOSS-NORM", "loss"),
        (over_everything, "LOSS-NORM", "loss"),
    ],
)
def test_wrong_loss(loss: Any, family: str, place: str) -> None:
    report = check(**healthy(loss=loss))
    assert report.cause is not None and (report.cause.family, report.cause.location.partition(":")[0]) == (
        family,
        place,
    )


def test_flattened_before_the_shift() -> None:
    model = Nano()
    report = check(model=model, loss=flattened, batches=hugging())
    assert report.cause is not None and report.cause.id == "TARGET-SHIFT/row-edge"


def mask_dropped_with_dropout() -> dict[str, Any]:
    model = Nano(dropout=0.1)
    model.h[1].leaks_when_dropping = True  # type: ignore[union-attr]
    return healthy(model=model)


def faintly_pooled() -> dict[str, Any]:
    model = Nano()
    block = model.h[0]
    real = block.forward
    block.forward = lambda x: real(x) - 1e-3 * x.mean(1, keepdim=True)  # type: ignore[method-assign]
    return healthy(model=model)


def one_layer_odd() -> dict[str, Any]:
    model = Nano()
    with torch.no_grad():
        model.h[1].fc.weight.mul_(4)  # type: ignore[union-attr, operator]
    return healthy(model=model)


def zero_rows() -> dict[str, Any]:
    model = Nano()
    with torch.no_grad():
        model.wte.weight[17:19].zero_()
    return healthy(model=model)


def wide_head() -> dict[str, Any]:
    model = Nano()
    nn.init.normal_(model.lm_head.weight, std=1.0)
    return healthy(model=model)


def left_out() -> dict[str, Any]:
    model = Nano()
    return healthy(
        model=model,
        optimizer=torch.optim.AdamW(
            [p for n, p in model.named_parameters() if "ln_f" not in n], lr=1e-3, weight_decay=0.0
        ),
    )


def stale() -> dict[str, Any]:
    return healthy(optimizer=grouped(Nano()))


def decays_norms() -> dict[str, Any]:
    model = Nano()
    return healthy(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1))


def half_moments() -> dict[str, Any]:
    model = Nano().bfloat16()
    return healthy(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0))


def lost_updates() -> dict[str, Any]:
    model = Nano().bfloat16()
    return healthy(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=1e-6))


def detached() -> dict[str, Any]:
    model = Nano()
    block = model.h[0]
    real = block.forward
    block.forward = lambda x: x + (real(x) - x).detach()  # type: ignore[method-assign]
    return healthy(model=model)


def some_rows_wrong() -> dict[str, Any]:
    batches = pairs()
    batches[4][1][2] = batches[4][1][2].roll(1)
    return healthy(batches=batches)


def ids_too_large() -> dict[str, Any]:
    batches = pairs()
    batches[3][0][0, 5] = VOCAB
    return healthy(batches=batches)


@pytest.mark.parametrize(
    ("broken", "family", "place"),
    [
        (mask_dropped_with_dropout, "LEAK-FUTURE", "model"),
        (faintly_pooled, "LEAK-FUTURE", "model"),
        (one_layer_odd, "NUMERIC", "initialisation"),
        (zero_rows, "NUMERIC", "initialisation"),
        (wide_head, "NUMERIC", "initialisation"),
        (left_out, "OPT-WIRING", "optimizer"),
        (stale, "OPT-WIRING", "optimizer"),
        (decays_norms, "OPT-WIRING", "optimizer"),
        (half_moments, "NUMERIC", "optimizer"),
        (lost_updates, "OPT-WIRING", "optimizer"),
        (detached, "OPT-WIRING", "gradient"),
        (some_rows_wrong, "TARGET-SHIFT", "rows"),
        (ids_too_large, "ID-RANGE", "rows"),
    ],
)
def test_broken_module(broken: Callable[[], dict[str, Any]], family: str, place: str) -> None:
    report = check(**broken())
    assert report.cause is not None, [ran.to_dict() for ran in report.ran]
    assert (report.cause.family, report.cause.location.partition(":")[0]) == (family, place), report.cause
    assert all(
        later.consequence_of or later.stage == report.cause.stage
        for later in report
        if later.grade == "stop" and later is not report.cause
    )


def test_padding_that_is_trained_on() -> None:
    batches = hugging()
    for batch in batches:
        batch["attention_mask"][0, 20:] = 0
    report = check(
        model=Nano(),
        loss=lambda logits, labels: cross_entropy(logits[:, :-1], labels[:, 1:]),
        batches=batches,
    )
    assert report.cause is not None and report.cause.id == "TARGET-MASK/pad-active"


def step_of(mean_of_means: bool, clears: bool) -> Callable[..., None]:
    def step(model: Nano, optimizer: torch.optim.Optimizer, batches: list[Any]) -> None:
        if clears:
            optimizer.zero_grad()
        total = sum(int((targets >= 0).sum()) for _, targets in batches)
        for ids, targets in batches:
            share = 1 / len(batches) if mean_of_means else int((targets >= 0).sum()) / total
            (model(ids, targets)[1] * share).backward()
        optimizer.step()

    return step


@pytest.mark.parametrize(
    ("mean_of_means", "clears", "expected"),
    [
        (False, True, None),
        (True, True, "LOSS-NORM/micro-batches"),
        (False, False, "OPT-WIRING/gradient-left-over"),
    ],
)
def test_the_users_own_step(mean_of_means: bool, clears: bool, expected: str | None) -> None:
    report = check(**healthy(train_step=step_of(mean_of_means, clears)), only=("T10",))
    assert (report.cause.id if report.cause else None) == expected


def evaluate_with(noisy: bool, leaves_eval: bool, averages: bool) -> Callable[..., float]:
    def evaluate(model: Nano, batches: list[Any]) -> float:
        if not noisy:
            model.eval()
        nats = count = 0.0
        means = []
        with torch.no_grad():
            for ids, targets in batches:
                n = int((targets >= 0).sum())
                loss = float(model(ids, targets)[1])
                means.append(loss)
                nats, count = nats + loss * n, count + n
        if not leaves_eval:
            model.train()
        return sum(means) / len(means) if averages else nats / count

    return evaluate


def test_evaluations() -> None:
    model = Nano(dropout=0.2)
    for options, expected in (
        ((True, True, False), "not-repeatable"),
        ((False, True, False), "mode-not-restored"),
    ):
        report = check(**healthy(model=model, evaluate=evaluate_with(*options)), only=("T13",))
        assert report.cause is not None and report.cause.id == f"EVAL-VALIDITY/{expected}"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "model="),
        ({"model": 3, "batches": pairs()}, "model="),
        ({"model": Nano(), "batches": []}, "batches="),
        ({"model": Nano(), "batches": [torch.zeros(0, 4, dtype=torch.long)]}, "batches="),
        ({"model": Nano(), "batches": [{"text": "no ids"}]}, "batches="),
        ({"model": Nano(), "batches": pairs(), "loss": 7}, "loss="),
    ],
)
def test_bad_input_names_the_argument(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError) as caught:
        check(**arguments)
    assert named in f"{caught.value.where} {caught.value.what}"


def test_declarations_silence_what_they_declare() -> None:
    report = check(**healthy(loss=of_rows, declared=Declared(loss_mean_over="rows")), only=("T10 norm",))
    assert not report


def test_one_target_that_is_not_trained_on_is_found_with_its_place() -> None:
    batches = hugging()
    batches[3]["labels"][1, 9] = -100
    report = check(
        model=Nano(),
        loss=lambda logits, labels: cross_entropy(logits[:, :-1], labels[:, 1:]),
        batches=batches,
        declared=Declared(loss_on="all"),
    )
    assert report.cause is not None and report.cause.id == "TARGET-MASK/lost"
    assert report.cause.location == "targets: batch 3, row 1, position 8"
    assert report.cause.numbers["lost"] == 1


def test_an_answer_whose_first_token_is_not_trained_on_is_found() -> None:
    batches = hugging()
    for number, batch in enumerate(batches):
        answers = torch.zeros_like(batch["input_ids"])
        answers[:, 10:] = 1
        batch["completion_mask"] = answers
        batch["labels"][:, : 11 if number == 2 else 10] = -100
    report = check(
        model=Nano(),
        loss=lambda logits, labels: cross_entropy(logits[:, :-1], labels[:, 1:]),
        batches=batches,
        declared=Declared(loss_on="responses"),
    )
    assert report.cause is not None and report.cause.id == "TARGET-MASK/lost"
    assert report.cause.location.startswith("targets: batch 2, row 0, position ")
