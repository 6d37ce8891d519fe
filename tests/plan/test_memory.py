"""Parts of the memory that are exact, and how the rest must move."""

import pytest
import torch

from umsicht.model import build, derive
from umsicht.plan.memory import kept_for_backward, predict, with_trial
from umsicht.recipe.model import ModelSettings
from umsicht.recipe.train import OptimizerSettings, TrainSettings


def config_of(d_model=64, seq_len=32):
    return derive(ModelSettings(d_model=d_model), 500, seq_len=seq_len)


@pytest.mark.parametrize("family", ["qwen3", "nanochat", "fast"])
def test_what_is_kept_is_what_autograd_really_keeps(family):
    config = derive(ModelSettings(family=family, d_model=64), 500, seq_len=32)
    model = build(config, 0)
    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    ids = torch.zeros(3, 32, dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        hidden = model.hidden(ids)
    real = sum(storage.nbytes() for pointer, storage in kept.items() if pointer not in own)
    assert kept_for_backward(config, 3) == pytest.approx(real + 2 * hidden.nbytes, rel=0.02)


def test_weights_gradients_and_optimizer_are_exact():
    config = config_of()
    model = build(config, 0)
    n = sum(parameter.numel() for parameter in model.parameters())
    matrices = sum(parameter.numel() for _, parameter, role in model.roles() if role == "matrix")
    adamw = predict(config, TrainSettings(optimizer=OptimizerSettings(kind="adamw")), 2)
    muon = predict(config, TrainSettings(optimizer=OptimizerSettings(kind="muon")), 2)
    assert adamw.weights == adamw.gradients == 4 * n
    # A step counter a parameter and the table of rotations come on top of the moments.
    assert adamw.optimizer == pytest.approx(8 * n, rel=2e-3) and adamw.optimizer >= 8 * n
    assert muon.optimizer == pytest.approx(8 * n - 4 * matrices, rel=2e-3)


def test_masters_are_counted_and_shards_divide():
    config, train = config_of(), TrainSettings()
    plain, half = predict(config, train, 2), predict(config, train, 2, precision="bfloat16")
    assert half.weights == plain.weights // 2
    assert half.optimizer == plain.optimizer + plain.weights
    sharded = predict(config, train, 2, shards=4)
    assert sharded.weights == plain.weights // 4
    assert sharded.activations == plain.activations


def test_activations_grow_with_rows():
    config = config_of()
    two, four = kept_for_backward(config, 2), kept_for_backward(config, 4)
    assert four == pytest.approx(2 * two, rel=0.05)


def test_a_trial_replaces_the_usual_surplus():
    """What a trial held beyond the tensors is added to what the run will hold; a trial that measured nothing changes nothing."""
    made = predict(config_of(), TrainSettings(), 8)
    assert with_trial(made, 0) == made
    measured = with_trial(made, made.tensors + 5_000_000)
    assert measured.surplus == 5_000_000
    assert measured.peak == made.tensors + made.snapshot + 5_000_000
