"""What `--dry-run` says of a stage is what the stage then does; and saying it leaves no trace."""

from __future__ import annotations

import pytest
from bench.finetune.project import additions, chats, preferences, write_rows

from umsicht.cli.finetune import finetune
from umsicht.finetune import outlook, run_stage
from umsicht.recipe.finetune import StageSettings

from .conftest import WAIVED


def staged(folder, rows, file="rows", **settings):
    write_rows(folder / f"{file}.jsonl", rows)
    return StageSettings(data=[f"{file}.jsonl"], **{"patience": None, "validations": 1, **settings})


def said(stages, base, folder):
    return outlook(stages, base, root=folder, waivers=WAIVED)


def test_the_counts_and_steps_are_those_of_the_training(base, files):
    stage = staged(files, chats(30), epochs=1.0, batch_rows=2, rate=1e-3)
    before = sorted(path.name for path in base.folder.parent.iterdir())
    (looked,) = said([stage], base, files)
    assert sorted(path.name for path in base.folder.parent.iterdir()) == before
    done = run_stage(stage, base, root=files, waivers=WAIVED)
    assert looked.targets == done.table and looked.steps == done.outcome.step
    assert looked.tokens == int(done.run.metrics().rows[-1]["tokens"])
    assert looked.decision.open and looked.training_rows + looked.held_out_rows == 30


def test_a_gate_that_would_stay_shut_is_said_and_not_recorded(base, files):
    stage = staged(files, [*chats(9), {"messages": [{"role": "user", "content": "and?"}]}])
    known = base.findings()
    (looked,) = said([stage], base, files)
    assert not looked.decision.open and looked.refused_rows == 1
    assert [finding.id for finding in looked.decision.stopping] == ["FINETUNE/bad-rows"]
    assert [finding.id for finding in outlook([stage], base, root=files)[0].decision.stopping] == [
        "FINETUNE/base-poor",
        "FINETUNE/bad-rows",
    ]
    assert base.findings() == known


def test_later_stages_are_counted_before_the_models_they_start_from_exist(base, files):
    stages = [
        staged(files, preferences(20), "pairs", method="reward", name="judge", steps=2),
        staged(files, additions(20), "sums", method="grpo", reward="model", reward_model="judge", steps=3),
    ]
    judge, grpo = said(stages, base, files)
    assert (judge.steps, grpo.steps) == (2, 3)
    assert judge.peak_bytes > 0 and grpo.reference_bytes > 0


def test_adapters_take_less_memory_than_all_weights(base, files):
    rows = chats(30)
    (whole,) = said([staged(files, rows)], base, files)
    (adapters,) = said([staged(files, rows, lora={"r": 2})], base, files)
    assert adapters.memory.gradients + adapters.memory.optimizer < 0.6 * (
        whole.memory.gradients + whole.memory.optimizer
    )


@pytest.mark.parametrize(("because", "code"), [("a test", 0), ("", 3)])
def test_the_verb_ends_as_the_training_would(base, files, capsys, because, code):
    write_rows(files / "rows.jsonl", chats(30))
    waive = ["FINETUNE/base-poor"] if because else None
    done = finetune(str(base.folder), data=[files / "rows.jsonl"], waive=waive, because=because, dry_run=True)
    printed = capsys.readouterr().out
    assert done == code and ("would open" if code == 0 else "would stay shut") in printed
    assert "FINETUNE/base-poor" in printed
