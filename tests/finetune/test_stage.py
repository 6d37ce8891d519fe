"""Whole stages on a small project: the gate, the three methods, export and reload, talking to what came out."""

from __future__ import annotations

import json
import math

import pytest
import torch
from bench.finetune.project import additions, base_run, chats, fresh, preferences, write_rows

from umsicht.evaluate.checkpoint import find
from umsicht.findings import UserError
from umsicht.finetune import check_base, export, merged, open_subject, run_stage
from umsicht.finetune.base import lacking
from umsicht.finetune.bring_in import bring_in
from umsicht.finetune.contamination import protected_rows
from umsicht.finetune.rows import parse
from umsicht.finetune.stage import no_gain, policy
from umsicht.finetune.stream import characters
from umsicht.finetune.talk import Talk, require_chat
from umsicht.model.adapter_file import load_adapter
from umsicht.recipe.finetune import StageSettings
from umsicht.record import Run
from umsicht.record.ids import file_digest

from .conftest import WAIVED


def stage(folder, rows, **settings):
    write_rows(folder / "rows.jsonl", rows)
    return StageSettings(data=["rows.jsonl"], **{"patience": None, "validations": 2, **settings})


@pytest.fixture(scope="session")
def tuned(base, tmp_path_factory):
    """A chat model with adapters: trained far enough to differ clearly from its base."""
    folder = tmp_path_factory.mktemp("chat")
    settings = stage(folder, chats(60), lora={"r": 4, "alpha": 12}, steps=15, rate=1e-2, batch_rows=4)
    return run_stage(settings, base, root=folder, waivers=WAIVED)


def test_a_base_without_evaluation_is_refused(tmp_path):
    run = base_run(tmp_path, fresh(), evaluated=False)
    with pytest.raises(UserError) as caught:
        run_stage(stage(tmp_path, chats(9)), run, root=tmp_path)
    assert caught.value.exit_code == 3 and "umsicht evaluate" in caught.value.fix
    assert [f["id"] for f in run.findings()] == ["FINETUNE/base-not-evaluated"]


def test_an_evaluation_of_other_weights_does_not_count(base):
    (finding,) = check_base(base, "0" * 64)
    assert finding.id == "FINETUNE/base-not-evaluated" and finding.numbers["evaluations"] == 1


def test_a_poor_base_is_refused_with_advice_and_a_waiver_opens_the_gate(base, files):
    with pytest.raises(UserError) as caught:
        run_stage(stage(files, chats(9)), base, root=files)
    assert caught.value.exit_code == 3 and "Pretrain" in caught.value.fix and "raining" in caught.value.why


def test_a_good_base_passes(base, tmp_path):
    path = next(base.evaluations.glob("*.json"))
    plain = json.loads(path.read_text())
    for name in plain["slices"]:
        plain["baselines"][name]["xz"] = plain["slices"][name]["bpb"] + 0.1
    run = Run.create(tmp_path / "runs" / "good", {"name": "good", "recipe": {}, "inputs": {}, "seed": 0})
    run.evaluations.mkdir()
    (run.evaluations / path.name).write_text(json.dumps(plain))
    assert check_base(run, plain["checkpoint"]["digest"]) == []


@pytest.mark.parametrize(
    ("val", "train", "expected"),
    [
        ([5, 4, 3, 2.5, 2.2], [5, 4, 3, 2.5, 2.2], "training"),
        ([3, 2.5, 2.6, 2.7, 2.9], [3, 2.4, 2.1, 1.8, 1.5], "data"),
        ([3, 2.5, 2.5, 2.5, 2.5], [3, 2.5, 2.5, 2.5, 2.5], "capacity"),
        ([3], [3], "training"),
    ],
)
def test_what_a_poor_base_lacks(tmp_path, val, train, expected):
    run = Run.create(tmp_path / "runs" / "r", {"name": "r", "recipe": {}, "inputs": {}, "seed": 0})
    writer = run.metrics_writer(0)
    for step, (v, seen) in enumerate(zip(val, train, strict=True)):
        writer.write({"step": step, "tokens": step, "val/all/bpb": float(v), "train_eval/bpb": float(seen)})
    writer.close()
    assert lacking(run) == expected


def test_too_many_bad_rows_are_refused_with_their_lines(base, files):
    rows = [*chats(9), {"messages": [{"role": "user", "content": "and?"}]}]
    with pytest.raises(UserError) as caught:
        run_stage(stage(files, rows), base, root=files, waivers=WAIVED)
    assert caught.value.exit_code == 3 and "rows.jsonl:10" in caught.value.where


def test_rows_of_a_protected_set_are_left_out(base, files):
    question = "how many pebbles does the harbour master count before the ninth lantern is lit"
    answer = "he counts exactly forty two grey pebbles and writes the number on the old oak door"
    write_rows(files / "test-set.jsonl", [{"question": question, "answer": answer}])
    recipe = {"corpus": {"protect": [{"name": "harbour", "path": "test-set.jsonl"}]}}
    leaked = parse({"prompt": "Say: " + question, "answer": "Surely " + answer}, "auto", "leaked")
    clean = parse({"prompt": "how many pebbles", "answer": "two"}, "auto", "clean")
    hits = protected_rows([clean, leaked], recipe, files)
    assert [hit.location for hit in hits] == ["leaked"] and "harbour" in hits[0].reason
    assert protected_rows([clean, leaked], {}, files) == []
    with pytest.raises(UserError):
        protected_rows([clean], recipe, files / "elsewhere")


def test_a_supervised_stage_learns_and_is_recorded(tuned, base):
    rows = tuned.run.metrics().rows
    held_out = [row["val/sft/loss"] for row in rows if "val/sft/loss" in row]
    assert held_out[-1] < 0.8 * held_out[0]
    manifest = tuned.run.manifest
    assert manifest["parent"] == base.name and manifest["chat"] and manifest["method"] == "sft"
    assert manifest["inputs"]["base:weights"] == file_digest(find(base) / "model.safetensors")
    assert manifest["targets"]["active"] == tuned.table["active"] > 0
    assert tuned.forgetting() and math.isfinite(tuned.forgetting()[0][2])
    assert manifest["waivers"][0]["id"] == "FINETUNE/base-poor"


def test_the_base_beside_adapters_is_untouched(tuned, base):
    own, theirs = (open_subject(run).model.state_dict() for run in (tuned.run, base))
    assert all(torch.equal(own[name], value) for name, value in theirs.items())
    assert any(name.endswith("lora_b") and own[name].abs().max() > 0 for name in own)


def test_saved_adapters_load_onto_the_base(tuned, base):
    again = load_adapter(open_subject(base).model, tuned.run.folder / "adapter")
    ids = torch.arange(20)[None]
    assert torch.equal(again(ids), open_subject(tuned.run).model(ids))


def test_a_projects_base_is_its_pretrained_run_although_stages_are_newer(tuned, base):
    from umsicht.cli.finetune import _base

    project = base.folder.parent.parent
    assert tuned.run.folder.parent == base.folder.parent
    assert (
        _base(str(project)).folder == base.folder and _base(str(tuned.run.folder)).folder == tuned.run.folder
    )


def test_the_same_stage_is_not_trained_twice(tuned, base, tmp_path):
    settings = StageSettings.model_validate(tuned.run.manifest["stage"])
    write_rows(tmp_path / "rows.jsonl", chats(60))
    before = tuned.run.metrics_path.read_bytes()
    evaluated = sorted((path.name, path.stat().st_mtime_ns) for path in tuned.run.evaluations.iterdir())
    again = run_stage(settings, base, root=tmp_path, waivers=WAIVED)
    assert again.run.folder == tuned.run.folder and again.outcome.step == tuned.outcome.step
    assert tuned.run.metrics_path.read_bytes() == before
    assert evaluated == sorted(
        (path.name, path.stat().st_mtime_ns) for path in tuned.run.evaluations.iterdir()
    )


@pytest.mark.parametrize("lora", [None, {"r": 2}])
def test_a_preference_stage_starts_at_ln_2_and_widens_the_margin(tuned, files, lora):
    settings = stage(files, preferences(20), method="dpo", lora=lora, steps=6, rate=1e-3, batch_rows=4)
    result = run_stage(settings, tuned.run, root=files, waivers=WAIVED)
    rows = result.run.metrics().rows
    losses = [row["train/loss"] for row in rows if "train/loss" in row]
    assert losses[0] == pytest.approx(math.log(2), abs=1e-6)
    held_out = [row["val/dpo/margin"] for row in rows if "val/dpo/margin" in row]
    assert held_out[0] == 0.0 < held_out[-1]
    assert result.outcome.reason == "finished"


def test_a_reward_stage_runs_and_reports_divergence(tuned, files):
    settings = stage(
        files, additions(20), method="grpo", steps=2, rate=1e-3, batch_rows=2, group=3, max_new_tokens=3
    )
    result = run_stage(settings, tuned.run, root=files, waivers=WAIVED)
    rows = [row for row in result.run.metrics().rows if "grpo/reward" in row]
    assert len(rows) == 2 and all(0 <= row["grpo/reward"] <= 1 for row in rows)
    assert rows[0]["grpo/kl"] == pytest.approx(0.0, abs=1e-6)
    held_out = [row for row in result.run.metrics().rows if "val/grpo/reward" in row]
    assert held_out and all(0 <= row["val/grpo/likeliest_reward"] <= 1 for row in held_out)


def test_a_judge_learns_from_pairs_and_then_gives_the_rewards(tuned, files):
    pairs = stage(files, preferences(80), method="reward", name="judge", steps=25, rate=3e-3, batch_rows=8)
    judge = run_stage(pairs, tuned.run, root=files, waivers=WAIVED)
    losses = [row["val/reward/loss"] for row in judge.run.metrics().rows if "val/reward/loss" in row]
    assert losses[-1] < losses[0]
    assert judge.next_base.folder == tuned.run.folder and not judge.run.manifest["chat"]
    rows = [{"question": row["question"]} for row in additions(20)]
    options = {
        "method": "grpo",
        "reward": "model",
        "steps": 1,
        "batch_rows": 2,
        "group": 3,
        "max_new_tokens": 3,
    }
    settings = stage(files, rows, reward_model="judge", **options)
    result = run_stage(settings, tuned.run, root=files, waivers=WAIVED)
    assert result.run.manifest["inputs"]["judge:weights"] == open_subject(judge.run).digest
    (row,) = [row for row in result.run.metrics().rows if "grpo/reward" in row]
    assert row["grpo/reward"] != 0.0 and row["grpo/flat_groups"] < 1
    with pytest.raises(UserError, match="nobody"):
        run_stage(stage(files, rows, reward_model="nobody", **options), tuned.run, root=files, waivers=WAIVED)


def test_problems_without_an_answer_cannot_be_checked(tuned, files):
    rows = [{"question": row["question"]} for row in additions(20)]
    with pytest.raises(UserError, match="answer"):
        run_stage(stage(files, rows, method="grpo", steps=1), tuned.run, root=files, waivers=WAIVED)


def test_adapters_of_a_rank_above_the_width_are_refused(base):
    subject = open_subject(base)
    width = subject.model.config.d_model
    policy(StageSettings(data=["x"], lora={"r": width}), subject)
    with pytest.raises(UserError, match=str(width)):
        policy(StageSettings(data=["x"], lora={"r": width + 1}), subject)


def test_a_stage_that_gains_nothing_says_so(tmp_path):
    settings = StageSettings(data=["x"], method="grpo")
    run = Run.create(tmp_path / "runs" / "r", {"name": "r", "recipe": {}, "inputs": {}, "seed": 0})
    writer = run.metrics_writer(0)
    for step, reward in ((0, 0.6), (10, 0.5), (20, 0.55)):
        writer.write({"step": step, "tokens": step, "val/grpo/reward": reward})
    writer.close()
    (finding,) = no_gain(settings, run)
    assert finding.id == "FINETUNE/no-gain" and finding.numbers["best"] == 0.55
    writer = run.metrics_writer(1)
    writer.write({"step": 30, "tokens": 30, "val/grpo/reward": 0.7})
    writer.close()
    assert no_gain(settings, run) == []


def test_a_stopped_stage_goes_on_as_if_it_had_not_stopped(tuned, tmp_path):
    def trained(folder, steps_first):
        folder.mkdir()
        settings = stage(
            folder, preferences(16), method="dpo", steps=6, rate=1e-3, batch_rows=4, seed=len(folder.name)
        )
        run = base_run(folder, merged(open_subject(tuned.run).model))
        return settings, run

    settings, run = trained(tmp_path / "a", 6)
    whole = run_stage(settings, run, root=tmp_path / "a", waivers=WAIVED).run
    rows = [row["train/loss"] for row in whole.metrics().rows if "train/loss" in row]
    settings, run = trained(tmp_path / "b", 3)
    import umsicht.finetune.stage as module

    class Interrupting(module.Trainer):
        def _step(self, view):
            super()._step(view)
            if view.step == 3:
                import os
                import signal

                os.kill(os.getpid(), signal.SIGINT)

    original = module.Trainer
    module.Trainer = Interrupting
    try:
        assert run_stage(settings, run, root=tmp_path / "b", waivers=WAIVED).outcome.reason == "interrupted"
    finally:
        module.Trainer = original
    again = run_stage(settings, run, root=tmp_path / "b", waivers=WAIVED)
    assert again.outcome.reason == "finished"
    assert [row["train/loss"] for row in again.run.metrics().rows if "train/loss" in row] == rows


@pytest.mark.parametrize("fmt", ["hf", "gguf-f32", "gguf-f16", "gguf-q8_0"])
def test_exports_read_back(tuned, tmp_path, fmt):
    if fmt != "hf":
        pytest.importorskip("gguf", reason="the extra [gguf] is not installed")
    subject = open_subject(tuned.run)
    written = export(subject, tmp_path / "out", fmt)
    assert written.largest_difference <= (1e-5 if fmt in ("hf", "gguf-f32") else 0.3)
    with pytest.raises(UserError, match="out"):
        export(subject, tmp_path / "out", fmt)
    if fmt == "hf":
        names = {path.name for path in (tmp_path / "out").iterdir()}
        assert {
            "config.json",
            "generation_config.json",
            "tokenizer_config.json",
            "chat_template.jinja",
        } <= names
        card = (tmp_path / "out" / "README.md").read_text()
        assert "PSF-2.0" in card and "FINETUNE/base-poor" in card and "ChatML" in card


def test_an_export_that_reads_back_wrong_is_not_kept(tuned, tmp_path, monkeypatch):
    import umsicht.finetune.exporting as module

    def wrong(folder):
        model = import_folder(folder)
        with torch.no_grad():
            model.embed.weight.add_(0.01)
        return model

    import_folder = module.import_folder
    monkeypatch.setattr(module, "import_folder", wrong)
    with pytest.raises(UserError, match="logit"):
        export(open_subject(tuned.run), tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_the_fast_family_is_refused_with_the_options(tmp_path):
    run = base_run(tmp_path, fresh(family="fast", softcap=15.0), evaluated=False)
    for fmt in ("hf", "gguf-f32"):
        with pytest.raises(UserError) as caught:
            export(open_subject(run), tmp_path / "out", fmt)
        assert "fast" in caught.value.what and "qwen3" in caught.value.fix
    assert not (tmp_path / "out").exists()


def test_an_export_comes_in_again_as_a_run(tuned, base, tmp_path):
    export(open_subject(tuned.run), tmp_path / "hf")
    run = bring_in(tmp_path / "hf", tmp_path / "project")
    assert bring_in(tmp_path / "hf", tmp_path / "project").folder == run.folder
    again = open_subject(run)
    ids = torch.arange(30)[None]
    torch.testing.assert_close(again.model(ids), merged(open_subject(tuned.run).model)(ids))
    assert again.is_chat
    (tmp_path / "hf" / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        bring_in(tmp_path / "hf", tmp_path / "other")


def test_a_tokenizer_that_was_changed_after_the_training_is_refused(tmp_path):
    run = base_run(tmp_path, fresh(), evaluated=False)
    (file,) = tmp_path.glob("artifacts/tokenizer/*/tokenizer.json")
    plain = json.loads(file.read_text())
    one, other = list(plain["model"]["vocab"])[300:302]
    vocabulary = plain["model"]["vocab"]
    vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
    file.write_text(json.dumps(plain))
    with pytest.raises(UserError, match="tokenizer was changed"):
        open_subject(run)


def test_a_damaged_checkpoint_is_called_damaged_and_not_missing(tmp_path):
    run = base_run(tmp_path, fresh(), evaluated=False)
    weights = find(run) / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-50] ^= 64
    weights.write_bytes(bytes(content))
    with pytest.raises(UserError) as caught:
        open_subject(run)
    assert "Damaged" in caught.value.why and "10" in caught.value.why


def test_a_base_model_refuses_to_chat(base, tuned):
    with pytest.raises(UserError, match="base model"):
        require_chat(open_subject(base))
    require_chat(open_subject(tuned.run))


def test_a_talk_forgets_its_oldest_turns_and_keeps_the_system_message(tuned):
    talk = Talk(open_subject(tuned.run), system="S")
    for number in range(6):
        talk.say("user", f"question {number} ?")
        ids, dropped = talk.prompt(room=20)
        assert len(ids) <= 96 - 20
        talk.say("assistant", f"answer {number}")
    assert dropped > 0 and dropped % 2 == 0
    assert talk.subject.tokenizer.decode(ids).startswith("<|im_start|>system\nS<|im_end|>")
    talk.say("user", "long " * 200)
    with pytest.raises(UserError, match="96"):
        talk.prompt(room=20)


def test_text_is_shown_in_whole_characters(tuned):
    tokenizer = open_subject(tuned.run).tokenizer
    text = "Übung 🙂 日本"
    pieces = list(characters(iter(tokenizer.encode(text)), tokenizer))
    assert "".join(pieces) == text and len(pieces) > 3
    torn = tokenizer.encode("🙂")[:-1]
    assert "".join(characters(iter(torn), tokenizer)) == "�"
