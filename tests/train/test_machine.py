"""What is chosen by looking at the machine is chosen once, recorded, and reused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from toy import ToyModel, ToySource, settings

from umsicht.findings import UserError
from umsicht.model import build, derive
from umsicht.recipe.model import ModelSettings
from umsicht.record import Run
from umsicht.train import Trainer, compiling, machine
from umsicht.train.objective import LanguageModelling


def start(folder: Path) -> Run:
    return Run.create(folder, {"name": folder.name, "recipe": {}, "inputs": {}, "seed": 0})


def test_an_absent_device_is_an_error_not_a_slow_run() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    with pytest.raises(UserError, match="cuda"):
        machine.choose_device("cuda")
    assert machine.choose_device("auto") in ("cpu", "mps")


def test_precision_follows_the_clock_not_the_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    def clock(half_s: float) -> None:
        monkeypatch.setattr(
            machine, "product_seconds", lambda dtype, *a: 1.0 if dtype == torch.float32 else half_s
        )

    clock(90.0)
    assert machine.choose_precision("auto", "cpu")[0] == "float32"
    clock(0.5)
    choice, measured = machine.choose_precision("auto", "cpu")
    assert choice == "bfloat16" and measured == {"float32_product_s": 1.0, "bfloat16_product_s": 0.5}
    assert machine.choose_precision("float32", "cpu") == ("float32", {})


def test_fewest_waits_win() -> None:
    """The probe takes the number of threads that was fastest, and sets it."""
    before = torch.get_num_threads()
    try:
        slept: list[int] = []

        def work() -> None:
            import time

            slept.append(torch.get_num_threads())
            time.sleep(0.02 if torch.get_num_threads() > 1 else 0.001)

        best, measured = machine.fastest_threads(work, (2, 1))
        assert best == 1 == torch.get_num_threads()
        assert measured["step_s_with_2_threads"] > measured["step_s_with_1_threads"]
        assert set(slept) == {1, 2}
    finally:
        torch.set_num_threads(before)


def test_choices_are_recorded_and_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = start(tmp_path / "run")
    first = Trainer(ToyModel(), ToySource(), settings(3, precision="auto", micro_batch=None), run)
    assert run.manifest["machine"] == first.machine.to_dict()

    def never(*args: object, **named: object) -> None:
        raise AssertionError("probed again on resume")

    monkeypatch.setattr(machine, "choose_precision", never)
    again = Trainer(
        ToyModel(), ToySource(), settings(3, precision="auto", micro_batch=None), Run.open(run.folder)
    )
    assert again.machine == first.machine


@pytest.mark.parametrize(
    ("rows", "seq", "wanted", "expected"),
    [(8, 256, None, 8), (64, 256, None, 32), (12, 256, 5, 4), (7, 256, 3, 1)],
)
def test_micro_batches_divide_the_rows(rows: int, seq: int, wanted: int | None, expected: int) -> None:
    assert machine.choose_micro_batch(wanted, rows, seq, "cpu") == expected


def test_compiling_pays_only_for_long_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "can_compile", lambda device: True)
    assert not compiling.choose("auto", "cpu", 300.0)
    assert compiling.choose("auto", "cpu", 3600.0)
    assert compiling.choose("on", "cpu", 1.0) and not compiling.choose("off", "cuda", 1e6)
    monkeypatch.setattr(compiling, "can_compile", lambda device: False)
    assert not compiling.choose("auto", "cpu", 3600.0)


def test_the_cache_is_kept_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "x"))
    assert compiling.cache_folder() == tmp_path / "x"
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compiling.cache_folder() == tmp_path / "umsicht" / "inductor"


@pytest.mark.long
def test_compiled_and_plain_trunk_agree() -> None:
    """Loss and gradient of the compiled trunk are those of the plain one."""
    config = derive(ModelSettings(d_model=64, n_layers=2), 37, seq_len=16)
    batch = ToySource().batch(0)
    grads = []
    for compiled in (False, True):
        model = build(config, 0)
        sums = LanguageModelling(compiled=compiled)(model, batch)
        sums.objective.backward()
        grads.append(
            (
                float(sums.nats),
                torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]),
            )
        )
    assert grads[0][0] == pytest.approx(grads[1][0], rel=1e-5)
    assert torch.allclose(grads[0][1], grads[1][1], rtol=1e-4, atol=1e-5)


def test_bfloat16_weights_train_and_resume_to_the_bit(tmp_path: Path) -> None:
    changes = {"precision": "bfloat16"}
    straight = Trainer(ToyModel(), ToySource(), settings(6, **changes), start(tmp_path / "a"))
    assert straight.model.up.weight.dtype == torch.bfloat16
    straight.fit()
    half = start(tmp_path / "b")
    first = Trainer(ToyModel(), ToySource(), settings(6, checkpoint={"every_steps": 3}, **changes), half)
    first.total_steps = 3
    first.fit()
    half.update_manifest(outcome=None)
    second = Trainer(
        ToyModel(seed=3),
        ToySource(),
        settings(6, checkpoint={"every_steps": 3}, **changes),
        Run.open(half.folder),
    )
    second.fit()
    for name, tensor in straight.model.state_dict().items():
        assert torch.equal(tensor, second.model.state_dict()[name]), name


@pytest.mark.parametrize(("exact", "precision"), [(True, "bfloat16"), (False, "autocast")])
def test_a_frozen_weight_is_never_rounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exact: bool, precision: str
) -> None:
    """Nothing would keep what it was. An objective from outside computes in bfloat16 all the same."""
    monkeypatch.setattr(machine, "choose_precision", lambda *_: ("bfloat16", {}))
    model = ToyModel()
    frozen = model.down.weight.requires_grad_(False)
    if exact:
        frozen.data = frozen.to(torch.bfloat16).float()
    before, formats, plain = frozen.detach().clone(), set(), LanguageModelling()
    model.down.register_forward_hook(lambda *parts: formats.add(parts[2].dtype))
    run = start(tmp_path / "run")
    trainer = Trainer(model, ToySource(), settings(2, precision="auto"), run, objective=plain.__call__)
    trainer.fit()
    assert run.manifest["machine"]["precision"] == precision and formats == {torch.bfloat16}
    assert torch.equal(model.down.weight.float(), before)


def test_document_mask_keeps_documents_apart() -> None:
    config = derive(ModelSettings(d_model=64, n_layers=2), 37, seq_len=16)
    model = build(config, 0)
    for name, parameter in model.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            torch.nn.init.normal_(parameter, std=0.1)
    batch = ToySource(masked=False).batch(0)
    batch.document_ids[:, 8:] = 1
    changed = batch.inputs.clone()
    changed[:, :8] = (changed[:, :8] + 1) % 37
    other = type(batch)(changed, batch.targets.clone(), batch.document_ids, batch.rows)
    other.targets[:, :8] = -100
    batch.targets[:, :8] = -100
    for masked, equal in ((True, True), (False, False)):
        objective = LanguageModelling(document_mask=masked)
        a, b = objective(model, batch).nats, objective(model, other).nats
        assert bool(torch.isclose(a, b, rtol=1e-6)) is equal
