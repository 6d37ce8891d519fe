"""The ready-made callbacks in real trainers: quiet on a healthy loop, and a stop before the weights move."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.guard.models import Nano, grouped, hugging, pairs

pytestmark = pytest.mark.long


def rows() -> list[dict[str, torch.Tensor]]:
    return [{key: value[row] for key, value in batch.items()} for batch in hugging() for row in range(3)]


def of_transformers(folder: Path, poisoned: bool, steps: int = 6, **changes: Any) -> tuple[Any, Any]:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed (extra hf)")
    pytest.importorskip("accelerate", reason="accelerate is not installed (extra hf)")
    from umsicht.guard.transformers_callback import UmsichtCallback

    torch.manual_seed(0)
    settings = transformers.GPT2Config(
        vocab_size=200, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(settings)
    if poisoned:
        with torch.no_grad():
            model.transformer.h[1].mlp.c_fc.weight[0, 0] = math.inf
    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "out"),
        max_steps=steps,
        per_device_train_batch_size=3,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
        **{"logging_steps": 1, **changes},
    )
    callback = UmsichtCallback(folder / "watched")
    trainer = transformers.Trainer(
        model=model, args=arguments, train_dataset=rows(), callbacks=[callback], data_collator=collate
    )
    return trainer, callback


def collate(batch: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {key: torch.stack([row[key] for row in batch]) for key in batch[0]}


def test_transformers_healthy(tmp_path: Path) -> None:
    trainer, callback = of_transformers(tmp_path, False)
    trainer.train()
    assert [f.id for f in callback.findings] == []
    assert len((tmp_path / "watched" / "metrics.jsonl").read_text().splitlines()) == 6


def test_steps_of_a_trainer_are_counted_and_not_its_logs(tmp_path: Path) -> None:
    trainer, callback = of_transformers(tmp_path, False, steps=6, logging_steps=2)
    trainer.train()
    written = (tmp_path / "watched" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in written] == [2, 4, 6] and callback.findings == []


def test_a_second_epoch_of_a_trainer_is_no_repetition_and_its_figures_are_kept(tmp_path: Path) -> None:
    trainer, callback = of_transformers(tmp_path, False, steps=14)
    plain_log = trainer.log
    trainer.log = lambda logs, *more: plain_log({**logs, "rewards/accuracies": 0.5}, *more)
    trainer.train()
    assert [f.id for f in callback.findings] == []
    written = (tmp_path / "watched" / "metrics.jsonl").read_text().splitlines()
    assert len(written) == 14 and '"train/rewards/accuracies":0.5' in written[-1]


def test_transformers_stops_before_the_weights_move(tmp_path: Path) -> None:
    trainer, callback = of_transformers(tmp_path, True)
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    trainer.train()
    assert trainer.state.global_step <= 1 and [f.family for f in callback.findings] == ["NUMERIC"]
    for name, parameter in trainer.model.named_parameters():
        assert torch.equal(before[name], parameter.detach().cpu()), name


def test_lightning(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
    from umsicht.guard.lightning_callback import UmsichtCallback

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self, poisoned: bool) -> None:
            super().__init__()
            self.model = Nano()
            if poisoned:
                with torch.no_grad():
                    self.model.h[1].fc.weight[0, 0] = math.inf  # type: ignore[union-attr, index]

        def forward(self, ids: torch.Tensor) -> Any:
            return self.model(ids, ids)[0]

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            loss: torch.Tensor = self.model(*batch)[1]
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return grouped(self.model)

    for poisoned in (False, True):
        callback = UmsichtCallback(tmp_path / f"watched-{poisoned}")
        module = Module(poisoned)
        before = {name: p.detach().clone() for name, p in module.named_parameters()}
        trainer = lightning.Trainer(
            max_steps=6,
            accelerator="cpu",
            callbacks=[callback],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=tmp_path,
        )
        trainer.fit(module, torch.utils.data.DataLoader(pairs(), batch_size=None))
        assert [f.family for f in callback.findings] == (["NUMERIC"] if poisoned else [])
        same = all(torch.equal(before[name], p.detach()) for name, p in module.named_parameters())
        assert same is poisoned
