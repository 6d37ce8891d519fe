"""Other people's logs: every format, every kind of damage, and the counts of it."""

from __future__ import annotations

import gzip
import json
import math
import os
from pathlib import Path

import pytest

from umsicht.diagnose import diagnose, read_log
from umsicht.findings import UserError

FIXTURES = Path(__file__).parent / "fixtures"
DATA = os.environ.get("UMSICHT_TEST_DATA", "")


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_german_csv_with_decimal_commas_and_a_column_map(tmp_path: Path) -> None:
    rows = ["Schritt;Verlust;Validierung;Lernrate"]
    for step in range(1, 101):
        val = f"{2.1 + 3 / step:.4f}".replace(".", ",") if step % 20 == 0 else ""
        rows.append(f"{step};{2 + 3 / step:.4f};{val};0,0003".replace(".", ","))
    path = write(tmp_path / "lauf.csv", "\n".join(rows) + "\n")
    curves = read_log(path, columns={"val/all/loss": "Validierung"})
    assert curves.get("train/loss").values[0] == pytest.approx(5.0)
    assert curves.get("val/all/loss").steps.tolist() == [20, 40, 60, 80, 100]
    assert curves.get("val/all/loss").values[-1] == pytest.approx(2.13)
    assert curves.get("train/lr").values[0] == pytest.approx(0.0003)
    assert diagnose(path, columns={"val/all/loss": "Validierung"}).verdict == "healthy"


def test_thousands_in_a_step_column_are_no_decimal_commas(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'step,loss\n"1,000",2.5\n"2,000",2.4\n"3,000","2.3"\n')
    curves = read_log(path)
    assert curves.get("train/loss").steps.tolist() == [1000, 2000, 3000]


def test_a_restart_replaces_what_it_undoes(tmp_path: Path) -> None:
    rows = ["step,loss"]
    rows += [f"{step},{5 - step / 100}" for step in range(1, 51)]
    rows += [f"{step},{4 - step / 100}" for step in range(31, 81)]
    curves = read_log(write(tmp_path / "a.csv", "\n".join(rows) + "\n"))
    train = curves.get("train/loss")
    assert train.steps.tolist() == list(range(1, 81))
    assert train.values[29] == pytest.approx(4.7)
    assert train.values[30] == pytest.approx(3.69)
    assert curves.damage.replaced == 20
    assert curves.restarts == (31,)


def test_one_row_out_of_order_and_one_written_twice(tmp_path: Path) -> None:
    text = "step,loss\n1,5\n2,4.9\n4,4.7\n3,4.8\n5,4.6\n5,4.5\n6,4.4\n"
    curves = read_log(write(tmp_path / "a.csv", text))
    assert curves.get("train/loss").values.tolist() == [5, 4.9, 4.8, 4.7, 4.5, 4.4]
    assert (curves.damage.out_of_order, curves.damage.duplicates, curves.damage.replaced) == (1, 1, 0)
    assert curves.restarts == ()


def test_nan_that_fills_empty_cells_is_no_failure(tmp_path: Path) -> None:
    rows = ["step,train_loss,val_loss"]
    rows += [f"{s},{3 + 2 / s},{3.1 + 2 / s if s % 10 == 0 else 'nan'}" for s in range(1, 96)]
    curves = read_log(write(tmp_path / "a.csv", "\n".join(rows) + "\n"))
    assert curves.get("val/all/loss").steps.tolist() == list(range(10, 91, 10))
    assert curves.damage.nonfinite == 0


def test_nan_to_the_end_is_a_failure(tmp_path: Path) -> None:
    rows = ["step,train_loss,val_loss"]
    rows += [
        f"{s},{3 + 2 / s if s < 60 else 'NaN'},{3.1 if s % 10 == 0 and s < 60 else ''}" for s in range(1, 101)
    ]
    path = write(tmp_path / "a.csv", "\n".join(rows) + "\n")
    made = diagnose(path)
    assert made.verdict == "diverged"
    assert made.read["nonfinite"] == 41
    assert [e.value for e in made.evidence if e.role == "last_finite"] == [pytest.approx(3 + 2 / 59)]


@pytest.mark.parametrize("spelling", ["Infinity", "inf", "+Inf", "1e400"])
def test_infinity_in_every_spelling(tmp_path: Path, spelling: str) -> None:
    path = write(tmp_path / "a.csv", f"step,loss\n1,3\n2,{spelling}\n3,2\n")
    assert math.isinf(read_log(path).get("train/loss").values[1])


def test_torn_last_line_of_each_format(tmp_path: Path) -> None:
    table = read_log(write(tmp_path / "a.csv", "step,loss,val_loss\n1,5,5\n2,4,4\n3,3"))
    assert (table.damage.torn, len(table.get("train/loss"))) == (1, 2)
    rows = read_log(write(tmp_path / "a.jsonl", '{"iter":1,"loss":5}\n{"iter":2,"loss":4}\n{"iter":3,"lo'))
    assert (rows.damage.torn, len(rows.get("train/loss"))) == (1, 2)
    lines = read_log(write(tmp_path / "a.log", "step 1 | loss 5.0\nstep 2 | loss 4.0\nstep 3 | loss 3."))
    assert (lines.damage.torn, len(lines.get("train/loss"))) == (1, 2)
    events = (FIXTURES / "events.out.tfevents.1700000000.small.1.0").read_bytes()
    (tmp_path / "events.out.tfevents.1").write_bytes(events[:-9])
    assert read_log(tmp_path / "events.out.tfevents.1").damage.torn == 1


def test_tensorboard_events_as_the_real_writer_writes_them() -> None:
    curves = read_log(FIXTURES)
    train = curves.get("train/loss")
    assert train.steps.tolist() == list(range(1, 62))
    assert train.values[3] == pytest.approx(4.0)
    assert math.isnan(train.values[-1])
    assert curves.get("val/all/loss").steps.tolist() == [10, 20, 30, 40, 50, 60]  # float tensors
    assert curves.get("train/epoch").values[0] == pytest.approx(10 / 7)  # double tensors


def test_trainer_state_leaves_the_summary_out(tmp_path: Path) -> None:
    history: list[dict[str, float]] = []
    for step in range(10, 210, 10):
        history.append({"epoch": step / 100, "learning_rate": 1e-4, "loss": 3 + 20 / step, "step": step})
        if step % 50 == 0:
            history.append({"epoch": step / 100, "eval_loss": 3.2 + 20 / step, "step": step})
    history.append({"epoch": 2.0, "step": 200, "train_loss": 99.0, "train_runtime": 3.0})
    state = {"log_history": history, "max_steps": 200, "global_step": 200}
    folder = tmp_path / "out"
    (folder / "checkpoint-200").mkdir(parents=True)
    (folder / "checkpoint-50").mkdir()
    (folder / "checkpoint-50" / "trainer_state.json").write_text("{}")
    (folder / "checkpoint-200" / "trainer_state.json").write_text(json.dumps(state))
    made = diagnose(folder)
    assert made.verdict == "healthy"
    assert made.read["format"] == "trainer_state"
    assert made.facts["planned_steps"] == 200
    assert read_log(folder).get("train/loss").values.max() < 10


def test_trainer_state_with_bare_nan(tmp_path: Path) -> None:
    text = json.dumps({"log_history": [{"step": 1, "loss": float("nan")}, {"step": 2, "loss": 2.0}]})
    assert "NaN" in text
    curves = read_log(write(tmp_path / "trainer_state.json", text))
    assert curves.damage.nonfinite == 1


def test_wandb_export_of_one_and_of_several_runs(tmp_path: Path) -> None:
    one = '"Step","brisk-1 - train/loss","brisk-1 - train/loss__MIN","brisk-1 - train/loss__MAX"\n'
    one += "".join(f'"{s}","{5 - s / 10}","0","9"\n' for s in range(1, 9))
    curves = read_log(write(tmp_path / "one.csv", one))
    assert curves.format == "wandb-csv"
    assert curves.get("train/loss").values[0] == pytest.approx(4.9)
    two = '"Step","a - loss","b - loss"\n"1","5","6"\n"2","4","5"\n'
    path = write(tmp_path / "two.csv", two)
    with pytest.raises(UserError, match="2"):
        read_log(path)
    assert read_log(path, columns={"run": "b"}).get("train/loss").values.tolist() == [6, 5]


LINES = {
    "megatron": (
        (
            " iteration     {s}/  300 | consumed samples:  1234 | learning rate: 9.850E-05 | global batch size: 1024 | "
            "lm loss: {x:.6E} | grad norm: 0.512 | number of nan iterations: 0 |\n"
        ),
        " validation loss at iteration {s} | lm loss value: {x:.6E} | lm loss PPL: 1.5E+01 | \n",
    ),
    "llm.c": (
        "step  {s}/300 | loss {x:.6f} (+nanz)| norm 0.9078 (-0.2z)| lr 8.57e-07 | 4230.95 ms | 31.9% bf16 MFU | 123917 tok/s\n",
        "val loss {x:.6f}\n",
    ),
    "llm.c main.log": ("s:{s} trl:{x:.4f} lr:0.000001 norm:14.96\n", "s:{s} tel:{x:.4f}\n"),
    "modded-nanogpt": (
        "step:{s}/300 train_loss:{x:.4f} train_time:200ms step_avg:12.5ms\n",
        "step:{s}/300 val_loss:{x:.4f} train_time:250ms\n",
    ),
    "nanoGPT": ("iter {s}: loss {x:.4f}, time 12.50ms, mfu 3.10%\n", "step {s}: val loss {x:.4f}\n"),
    "nanochat": (
        "step {s:05d}/00300 (0.47%) | loss: {x:.6f} | grad norm: 0.30 | lrm: 1.00 | dt: 1.2ms | tok/sec: 100\n",
        "Step {s:05d} | Validation loss: {x:.4f}\n",
    ),
    "python dict": (
        "{{'step': {s}, 'loss': {x:.4f}, 'learning_rate': 5e-05}}\n",
        "{{'step': {s}, 'eval_loss': {x:.4f}}}\n",
    ),
}


@pytest.mark.parametrize("name", sorted(LINES))
def test_line_logs(tmp_path: Path, name: str) -> None:
    train, val = LINES[name]
    text = "some banner 2024-01-01 12:00:00\n"
    for step in range(1, 301):
        text += train.format(s=step, x=3 + 7 / step)
        if step % 50 == 0:
            text += val.format(s=step, x=3.1 + 7 / step)
    path = write(tmp_path / "train.log", text)
    curves = read_log(path)
    assert curves.get("train/loss").steps.tolist() == list(range(1, 301))
    assert curves.get("train/loss").values[0] == pytest.approx(10.0)
    assert curves.get("val/all/loss").steps.tolist() == [50, 100, 150, 200, 250, 300]
    assert curves.get("val/all/loss").values[-1] == pytest.approx(3.1233, abs=1e-3)
    assert diagnose(path).verdict == "healthy"


def test_perplexity_becomes_a_loss(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv", "step,loss,val_ppl\n" + "".join(f"{s},3,{math.e**3}\n" for s in range(1, 5))
    )
    assert read_log(path).get("val/all/loss").values.tolist() == pytest.approx([3, 3, 3, 3])


def test_packed_and_half_packed_logs(tmp_path: Path) -> None:
    text = "step,loss\n" + "".join(f"{s},{3 + 1 / s}\n" for s in range(1, 5000))
    whole = gzip.compress(text.encode())
    (tmp_path / "a.csv.gz").write_bytes(whole)
    assert len(read_log(tmp_path / "a.csv.gz").get("train/loss")) == 4999
    (tmp_path / "b.csv.gz").write_bytes(whole[: len(whole) // 2])
    assert len(read_log(tmp_path / "b.csv.gz").get("train/loss")) > 1000


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.csv", b""),
        ("header.csv", b"step,loss\n"),
        ("nothing.csv", b"a,b\n1,2\n"),
        ("noise.bin", bytes(range(256)) * 8),
        ("broken.json", b'{"log_history": [{"step": 1'),
        ("other.json", b'{"a": 1}'),
        ("other.jsonl", b'{"a": 1}\n'),
        ("bad.csv.gz", b"\x1f\x8b\x08\x00nonsense"),
        ("x.tfevents", b"\x00" * 40),
    ],
)
def test_unreadable_input_is_a_sentence(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_log(path)
    assert caught.value.where == str(path)


def test_a_wrong_column_name_lists_those_there_are(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "step,Verlust\n1,2\n")
    with pytest.raises(UserError, match="Verlust"):
        read_log(path, columns={"train/loss": "Velust"})


@pytest.mark.skipif(not DATA, reason="UMSICHT_TEST_DATA is not set")
class TestPublicCurves:
    """Published logs with what is known of them."""

    folder = Path(DATA) / "loss-curves"

    def test_healthy_runs_are_healthy(self) -> None:
        for name in ("llmc-gpt2-124m-healthy.log.gz", "llmc-rerun.log.gz"):
            assert diagnose(self.folder / name).verdict == "healthy", name

    def test_nan_from_the_first_step(self) -> None:
        made = diagnose(self.folder / "llmc-nan-from-step-1.log.gz")
        assert (made.verdict, made.reason) == ("diverged", "nonfinite-from-start")
        assert len(made.evidence) >= 3

    @pytest.mark.parametrize(
        "run", ["2024-10-29_Optimizers__8bfe4e35", "2024-11-06_ShortcutsTweaks__042f9e87"]
    )
    def test_known_spikes_are_found_and_no_run_is_called_ill(self, run: str) -> None:
        made = diagnose(self.folder / "modded-nanogpt" / f"{run}.tsv.gz")
        spikes = {event.step for event in made.events if event.kind == "spike"}
        assert {919, 947, 1760, 3194} <= spikes
        assert all(event.recovered for event in made.events if event.kind == "spike")
        assert made.verdict == "healthy"

    def test_a_table_of_several_runs_asks_which(self) -> None:
        path = self.folder / "bigscience-chronicle-lines.tsv.gz"
        with pytest.raises(UserError, match="tr11"):
            read_log(path)
        assert len(read_log(path, columns={"run": "tr8b-104B"}).get("train/loss")) > 10


def test_dictionaries_printed_between_progress_bars_keep_their_steps(tmp_path: Path) -> None:
    parts = []
    for step in range(1, 101):
        parts.append(f"\r {step}%|█  | {step}/100 [00:{step % 60:02d}<01:00, 3.1it/s]")
        if step % 5 == 0:
            parts.append(f"\n{{'loss': '{9 - step / 20:.3f}', 'grad_norm': nan, 'epoch': {step / 50}}}\n")
        if step % 20 == 0:
            parts.append(
                f"\r 100%|██| 7/7 [00:01<00:00, 9it/s]\n{{'eval_loss': {9.1 - step / 20}, 'epoch': 1.0}}\n"
            )
    curves = read_log(write(tmp_path / "console.log", "".join(parts)))
    assert curves.get("train/loss").steps.tolist() == list(range(5, 101, 5))
    assert curves.get("train/loss").values[0] == pytest.approx(8.75)
    assert curves.get("val/all/loss").steps.tolist() == [20, 40, 60, 80, 100]


def test_a_progress_bar_with_a_loss_in_it_is_a_log(tmp_path: Path) -> None:
    text = "".join(f"\r {n}%|█| {n}/50 [00:01<00:10, 3.1it/s, loss={5 - n / 20:.2f}]" for n in range(1, 51))
    curves = read_log(write(tmp_path / "bar.log", text + "\n"))
    assert curves.get("train/loss").steps.tolist() == list(range(1, 51))
    assert curves.get("train/loss").values[-1] == pytest.approx(2.5)


def test_updates_of_fairseq_are_steps(tmp_path: Path) -> None:
    line = "2024-05-01 10:00:00 | INFO | train_inner | epoch 001: {0} / 100 loss={1}, wps=9, num_updates={0}, lr=0.1\n"
    curves = read_log(
        write(tmp_path / "a.log", "".join(line.format(n, 9 - n / 20) for n in range(10, 101, 10)))
    )
    assert curves.get("train/loss").steps.tolist() == list(range(10, 101, 10))


def test_objects_inside_json_lines_are_read_by_their_path(tmp_path: Path) -> None:
    rows = [
        {"step": n, "metrics": {"train": {"loss": 9 - n / 20}, "val": {"loss": 9.1 - n / 20}}}
        for n in range(1, 31)
    ]
    curves = read_log(write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)) + "\n"))
    assert curves.get("train/loss").values[0] == pytest.approx(8.95)
    assert curves.get("val/all/loss").values[0] == pytest.approx(9.05)
