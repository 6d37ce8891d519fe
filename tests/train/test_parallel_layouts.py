"""Every layout that four processes can form computes what one process computes; and the comparison sees a missing exchange."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from together import torchrun

SHORT: dict[str, dict[str, Any]] = {
    "shard 2 × tensor 2": {"parallel": {"shard": 2, "tensor": 2}, "optimizer": "muon"},
    "data 2 × pipeline 2": {"parallel": {"data": 2, "pipeline": 2}, "optimizer": "muon"},
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "data 4": {"parallel": {"data": 4}, "optimizer": "muon"},
    "shard 4": {"parallel": {"shard": 4}, "optimizer": "muon"},
    "tensor 4": {"parallel": {"tensor": 4}, "optimizer": "muon"},
    "pipeline 4": {"parallel": {"pipeline": 4}, "optimizer": "muon"},
    "pipeline 4 interleaved": {"parallel": {"pipeline": 4, "schedule": "interleaved"}, "layers": 8},
    "data 2 × tensor 2": {"parallel": {"data": 2, "tensor": 2}, "optimizer": "muon"},
    "data 2 × pipeline 2 interleaved": {
        "parallel": {"data": 2, "pipeline": 2, "schedule": "interleaved"},
        "family": "fast",
        "optimizer": "muon",
    },
    "data 2 × shard 2": {"parallel": {"data": 2, "shard": 2}, "optimizer": "muon"},
    "tensor 4, smoothing, z-loss, soft cap, document mask": {
        "parallel": {"tensor": 4},
        "family": "fast",
        "regularisation": {"z_loss": 0.001, "label_smoothing": 0.1},
        "document_mask": True,
    },
    "tensor 4, stream whole on every rank": {
        "parallel": {"tensor": 4, "sequence": False},
        "optimizer": "muon",
    },
    "tensor 4, biases, table of positions, document mask": {
        "parallel": {"tensor": 4, "sequence": True},
        "family": "gpt2",
        "document_mask": True,
    },
    "shard 4, value embeddings, document mask": {
        "parallel": {"shard": 4},
        "family": "fast",
        "document_mask": True,
    },
}
DROPPED = {
    "gradients": {"parallel": {"data": 4}, "steps": 2},
    "hidden": {"parallel": {"tensor": 4}, "steps": 2},
    "partial": {"parallel": {"tensor": 4}, "steps": 2},
    "shard": {"parallel": {"shard": 4}, "steps": 2},
}


def measured(root: Path, cases: dict[str, dict[str, Any]], drop: str = "") -> dict[str, Any]:
    numbered = {str(i): case for i, case in enumerate(cases.values())}
    torchrun(4, "layouts_main.py", {"folder": str(root), "cases": numbered, "drop": drop}, timeout=3600)
    return {name: json.loads((root / f"{i}.json").read_text()) for i, name in enumerate(cases)}


def check(name: str, found: dict[str, Any]) -> None:
    print(name, found["gradient"], found["loss"], found["shapes"])
    assert found["reason"] == "finished" and found["steps"] == 20
    assert found["fell"] < 0.95, "the reference did not learn: equality would say nothing"
    assert found["gradient"] <= 1e-5, found["worst"]
    assert found["loss"] <= 1e-5


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return measured(tmp_path_factory.mktemp("short"), SHORT)


@pytest.mark.parametrize("name", list(SHORT))
def test_combined_layouts_train_as_one_process_does(short: dict[str, Any], name: str) -> None:
    check(name, short[name])


def test_shards_really_are_parts(short: dict[str, Any]) -> None:
    shapes = short["shard 2 × tensor 2"]["shapes"]
    assert shapes[0]["layers.0.attention.q_proj.weight"] == [64, 256]  # of [256, 256]: four ways
    assert shapes[0]["layers.0.mlp.down_proj.weight"] == [128, 256]  # of [256, 512]: both ways
    assert shapes[0]["stream"] == [2, 16, 256]  # of [2, 32, 256]: along the sequence
    held = [set(one) - {"stream"} for one in short["data 2 × pipeline 2"]["shapes"]]
    assert {len(one) for one in held} == {5}  # half of the layers, one table


@pytest.fixture(scope="module")
def all_layouts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return measured(tmp_path_factory.mktemp("layouts"), LAYOUTS)


@pytest.mark.long
@pytest.mark.parametrize("name", list(LAYOUTS))
def test_every_layout_trains_as_one_process_does(all_layouts: dict[str, Any], name: str) -> None:
    check(name, all_layouts[name])


@pytest.mark.long
@pytest.mark.parametrize("drop", list(DROPPED))
def test_a_deleted_exchange_is_seen(tmp_path: Path, drop: str) -> None:
    found = measured(tmp_path, {drop: DROPPED[drop]}, drop)[drop]
    assert found["reason"] != "finished" or found["gradient"] > 1e-3
