"""Several processes train what one process trains: real ranks under torchrun, many cases a start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from together import torchrun

from umsicht.findings import UserError
from umsicht.recipe.parallel import ParallelSettings
from umsicht.record import Run
from umsicht.train.layouts.sizes import sizes_of
from umsicht.train.shares import bounds

CHECKED = {"parallel": {"check_every": 1}}


def outcome(folder: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads((folder / "outcome.json").read_text())
    return said


def losses(folder: Path) -> list[float]:
    return [row["train/loss"] for row in Run.open(folder).metrics().rows]


def weights(folder: Path) -> bytes:
    newest = sorted((folder / "checkpoints").glob("step-*"))[-1]
    return (newest / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks; dropout, uneven masks, Muon."""
    root = tmp_path_factory.mktemp("two")
    every = {"checkpoint": {"every_steps": 4, "every_minutes": None}}
    cases: list[dict[str, Any]] = [
        {"folder": str(root / "straight"), "dropout": 0.2},
        {"folder": str(root / "stopped"), "dropout": 0.2, "interrupt": 3, "settings": every},
        {"folder": str(root / "skipped"), "skip": 3},
        {"folder": str(root / "stopping"), "stop": 4},
        {"folder": str(root / "drifting"), "drift": 3},
        {"folder": str(root / "uneven"), "rows": 7},
    ]
    torchrun(2, "ranks_main.py", {**CHECKED, "cases": cases})
    torchrun(
        2,
        "ranks_main.py",
        {**CHECKED, "cases": [{"folder": str(root / "stopped"), "dropout": 0.2, "settings": every}]},
    )
    return root


def test_a_restart_of_all_ranks_gives_the_same_bits(two: Path) -> None:
    assert outcome(two / "stopped")["reason"] == "finished"
    assert losses(two / "stopped") == losses(two / "straight")
    assert weights(two / "stopped") == weights(two / "straight")


def test_one_writer_writes_each_step_once(two: Path) -> None:
    lines = (two / "straight" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == list(range(1, 9))


def test_a_skip_on_one_rank_is_a_skip_on_all(two: Path) -> None:
    rows = Run.open(two / "skipped").metrics().rows
    assert [row["step"] for row in rows if row.get("train/skipped")] == [3]
    assert outcome(two / "skipped")["reason"] == "finished"


def test_a_stop_on_one_rank_stops_all_at_that_step_with_its_finding(two: Path) -> None:
    assert outcome(two / "stopping") == {
        "reason": "stopped-by-guard",
        "step": 3,
        "signal": "",
        "finding": "NUMERIC/not-finite",
    }


def test_a_rank_whose_weights_drift_is_named(two: Path) -> None:
    (finding,) = [f for f in Run.open(two / "drifting").findings() if f["id"].startswith("RANK/")]
    assert finding["id"] == "RANK/parameters-differ"
    assert (finding["numbers"]["rank"], finding["numbers"]["step"]) == (1, 3)


def test_uneven_rows_give_the_loss_of_one_process(two: Path, tmp_path: Path) -> None:
    from toy import ToyModel, ToySource, settings

    from umsicht.train import Trainer

    run = Run.create(tmp_path / "alone", {"name": "alone", "recipe": {}, "inputs": {}, "seed": 0})
    Trainer(ToyModel(), ToySource(rows=7), settings(8, global_batch_tokens=112), run).fit()
    assert losses(two / "uneven") == pytest.approx(losses(run.folder), rel=1e-5)


def test_parts_of_a_batch_cover_it_once() -> None:
    for total in (1, 7, 8, 12):
        for world in (1, 2, 3, 4):
            rows = [r for rank in range(world) for r in range(*bounds(total, rank, world))]
            assert rows == list(range(total))


def test_sizes_that_do_not_fit_the_processes_are_refused() -> None:
    assert str(sizes_of(ParallelSettings(tensor=2), 4)) == "data 2 × tensor 2"
    with pytest.raises(UserError):
        sizes_of(ParallelSettings(data=3), 4)
    with pytest.raises(UserError):
        sizes_of(ParallelSettings(pipeline=2, tensor=2), 4)


def test_the_stream_is_divided_where_rows_divide_and_nothing_drops_out() -> None:
    from dataclasses import replace

    from umsicht.model import ModelConfig
    from umsicht.train.layouts.tensor import divides_stream

    config = ModelConfig(
        family="qwen3", n_tokens=512, vocab_size=512, d_model=64, n_layers=2, n_heads=4, n_kv_heads=4, head_dim=16, d_ff=128, seq_len=48
    )  # fmt: skip
    dropping = replace(config, dropout_residual=0.1)
    assert divides_stream(config, 4, None) and divides_stream(config, 4, True)
    assert not divides_stream(config, 4, False)
    assert not divides_stream(config, 5, None) and not divides_stream(dropping, 4, None)
    for unfit, ways in ((config, 5), (dropping, 4)):
        with pytest.raises(UserError):
            divides_stream(unfit, ways, True)


def test_auto_shards_as_little_as_memory_asks() -> None:
    from umsicht.model import ModelConfig
    from umsicht.recipe.train import TrainSettings
    from umsicht.train.proposal import propose

    config = ModelConfig(
        family="qwen3", n_tokens=512, vocab_size=512, d_model=256, n_layers=8, n_heads=8, n_kv_heads=4, head_dim=32, d_ff=1024, seq_len=64
    )  # fmt: skip

    def sizes(available: int) -> tuple[int | None, int, int]:
        found = propose(config, TrainSettings(), 1, world=4, local_world=4, available=available)
        assert found.needed_bytes <= available
        return found.settings.data, found.settings.shard, found.settings.tensor

    whole = propose(config, TrainSettings(), 1, world=4, local_world=4, available=10**12).needed_bytes
    assert sizes(whole) == (4, 1, 1)
    assert sizes(whole - 1) == (2, 2, 1)
    with pytest.raises(UserError):
        sizes(whole // 50)
