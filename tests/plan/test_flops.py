"""The formulas against a counter and against the real parameters."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from umsicht.model import build, derive
from umsicht.plan import model_cost, utilisation
from umsicht.recipe.model import ModelSettings


@pytest.mark.parametrize("family", ["qwen3", "nanochat", "fast"])
@pytest.mark.parametrize(("d_model", "tied"), [(64, False), (192, True), (512, False)])
def test_formulas_equal_the_counter_and_the_weights(family, d_model, tied):
    config = derive(ModelSettings(family=family, d_model=d_model, tied=tied), 1000, seq_len=64)
    model, cost = build(config, 0), model_cost(config)
    assert cost.parameters == sum(parameter.numel() for parameter in model.parameters())
    ids = torch.zeros(2, 64, dtype=torch.long)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        logits = model(ids)
        forward = counter.get_total_flops()
        logits.sum().backward()
    assert forward == cost.flops_forward * ids.numel()
    assert counter.get_total_flops() == cost.flops_training * ids.numel()


def test_gpt3_sized_body_matches_the_usual_six_n():
    config = derive(ModelSettings(d_model=4096, n_layers=32), 50_000, seq_len=2048)
    cost = model_cost(config)
    weights = cost.matrix_flops_forward / 2
    assert cost.flops_training == pytest.approx(6 * weights + 12 * 32 * 4096 * 2048)


def test_utilisation_is_a_ratio():
    assert utilisation(6e9, 1000, 12e12) == pytest.approx(0.5)
