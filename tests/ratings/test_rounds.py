"""Rounds on disk: blind, balanced, sealed until complete, the same through the browser's way, files and the terminal."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import orjson
import pytest

from umsicht.findings import UserError
from umsicht.ratings import (
    Design,
    Matched,
    Output,
    Round,
    create,
    default,
    export,
    match,
    of_file,
    of_run,
    read_back,
)
from umsicht.ratings.outputs import spoil
from umsicht.record.run import Run

GOOD, BAD = "run-good@200", "run-bad@100"


def outputs(n: int = 40) -> list[Output]:
    made = []
    for i in range(n):
        words = " ".join(f"word{i}{j}" for j in range(9))
        made.append(Output(GOOD, f"p{i}", f"Prompt {i}", f"good {words}"))
        made.append(Output(BAD, f"p{i}", f"Prompt {i}", f"poor {words}"))
    return made


@pytest.fixture
def one(tmp_path: Path) -> Round:
    design = Design(raters=("anna", "ben"), seed=7)
    return create(tmp_path / "round", match(outputs()), design, default("de"))


def test_nothing_a_rater_sees_names_a_system_or_a_role(one: Round) -> None:
    for name in ("round.json", "items/anna.jsonl", "items/ben.jsonl"):
        text = (one.folder / name).read_text(encoding="utf-8")
        for secret in (GOOD, BAD, "run-", "@", "control", "repeat", "regular.", '"seed"', "system"):
            assert secret not in text, (name, secret)
    assert GOOD in (one.folder / "key.json").read_text(encoding="utf-8")


def test_sides_are_balanced_and_orders_differ(one: Round) -> None:
    key = orjson.loads((one.folder / "key.json").read_bytes())["items"]
    orders = []
    for rater in one.raters:
        items = one.items(rater)
        regular = [key[i.id] for i in items if key[i.id]["role"] == "regular"]
        assert Counter(s["systems"][0] for s in regular) == {GOOD: 20, BAD: 20}
        roles = Counter(key[i.id]["role"] for i in items)
        assert roles == {"regular": 40, "repeat": 4, "control": 4}
        assert Counter(key[i.id]["better"] for i in items if key[i.id]["role"] == "control") == {
            "left": 2,
            "right": 2,
        }
        orders.append([key[i.id]["unit"] for i in items if key[i.id]["role"] == "regular"])
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]
    assert len({i.id for rater in one.raters for i in one.items(rater)}) == 2 * 48


def test_repeats_come_later_with_sides_swapped(one: Round) -> None:
    key = orjson.loads((one.folder / "key.json").read_bytes())["items"]
    items = one.items("anna")
    place = {key[i.id]["unit"]: n for n, i in enumerate(items) if key[i.id]["role"] == "regular"}
    by_unit = {key[i.id]["unit"]: i for i in items if key[i.id]["role"] == "regular"}
    for n, item in enumerate(items):
        if key[item.id]["role"] == "repeat":
            first = by_unit[key[item.id]["unit"]]
            assert n > place[key[item.id]["unit"]]
            assert (item.left, item.right) == (first.right, first.left)


def test_the_key_stays_shut_until_all_answers_are_in(one: Round) -> None:
    for rater in one.raters:
        for item in one.items(rater):
            with pytest.raises(UserError) as early:
                one.read_key()
            assert "anna" in early.value.where
            one.answer(rater, item.id, "left", seconds=3.0)
    assert one.is_complete
    assert one.read_key()["seed"] == 7


def test_a_touched_key_or_round_is_noticed(one: Round) -> None:
    for rater in one.raters:
        for item in one.items(rater):
            one.answer(rater, item.id, "tie")
    path = one.folder / "key.json"
    path.write_bytes(path.read_bytes().replace(GOOD.encode(), BAD.encode(), 1))
    with pytest.raises(UserError, match=r"(key|Schlüssel)"):
        one.read_key()
    head = orjson.loads((one.folder / "round.json").read_bytes())
    (one.folder / "round.json").write_bytes(orjson.dumps({**head, "key_digest": "0" * 64}))
    with pytest.raises(UserError):
        Round(one.folder).items("anna")


def test_the_last_answer_counts_and_bad_ones_are_refused(one: Round) -> None:
    item = one.items("anna")[0].id
    one.answer("anna", item, "left")
    one.answer("anna", item, " Right ", note="second thoughts")
    assert one.answers("anna")[item]["answer"] == "right"
    assert one.progress()["anna"] == (1, 48)
    for bad in ("links", "", None, 3):
        with pytest.raises(UserError):
            one.answer("anna", item, bad)
    with pytest.raises(UserError):
        one.answer("anna", "nosuchitem", "left")
    with pytest.raises(UserError):
        one.answer("carl", item, "left")


def test_csv_goes_out_and_comes_back(one: Round, tmp_path: Path) -> None:
    path = tmp_path / "anna.csv"
    assert export(one, "anna", path) == 48
    rows = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines(keepends=True)))
    for i, row in enumerate(rows):
        row["answer"] = "" if i == 0 else ("left", "right", "tie", "skip")[i % 4]
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    assert read_back(one, path) == {"anna": 47}
    assert one.progress() == {"anna": (47, 48), "ben": (0, 48)}
    assert one.answers("anna")[rows[1]["item"]]["answer"] == "right"


def test_jsonl_goes_out_and_comes_back_for_scores(tmp_path: Path) -> None:
    one = create(tmp_path / "r", outputs(12), Design(kind="scores", raters=("anna",), seed=1), default())
    path = tmp_path / "anna.jsonl"
    export(one, "anna", path)
    rows = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    assert "right" not in rows[0]
    for row in rows:
        row.update(
            {"fluency": 4, "coherence": "3", "repetition": 5, "factual": "skip", "instruction": "skip"}
        )
    path.write_bytes(b"\n".join(orjson.dumps(row) for row in rows))
    assert read_back(one, path) == {"anna": len(rows)}
    assert one.is_complete
    answer = one.answers("anna")[rows[0]["item"]]["answer"]
    assert answer == {"fluency": 4, "coherence": 3, "repetition": 5, "factual": "skip", "instruction": "skip"}


@pytest.mark.parametrize(
    ("change", "line"),
    [({"answer": "links"}, 3), ({"key_digest": "0"}, 3), ({"item": "x"}, 3), ({"rater": "carl"}, 3)],
)
def test_a_bad_line_is_named_and_nothing_is_recorded(
    one: Round, tmp_path: Path, change: dict, line: int
) -> None:
    path = tmp_path / "anna.jsonl"
    export(one, "anna", path)
    rows = [{**orjson.loads(text), "answer": "tie"} for text in path.read_bytes().splitlines()]
    rows[line - 1].update(change)
    path.write_bytes(b"\n".join(orjson.dumps(row) for row in rows))
    with pytest.raises(UserError) as refused:
        read_back(one, path)
    if "rater" not in change:
        assert refused.value.where.startswith(f"{path}:{line}")
    assert one.progress()["anna"] == (0, 48)


def test_formulas_in_model_text_do_not_run_in_a_spreadsheet(tmp_path: Path) -> None:
    made = [Output("a", "p", "=1+1", "=cmd()|x"), Output("b", "p", "=1+1", "+other text here")]
    one = create(tmp_path / "r", match(made), Design(raters=("anna",)), default())
    export(one, "anna", tmp_path / "a.csv")
    cells = [
        v
        for row in csv.reader((tmp_path / "a.csv").read_text(encoding="utf-8-sig").splitlines())
        for v in row
    ]
    assert not any(cell[:1] in ("=", "+", "-", "@") for cell in cells if cell)


def test_outputs_of_a_run_are_matched_by_prompt_seed_and_temperature(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", {"name": "r"})
    for step, word in ((100, "early"), (200, "late")):
        run.add_samples(
            {"step": step, "protocol": "x", "prompt_id": p, "prompt": p, "temperature": temp, "seed": 0,
             "text": "same" if p == "c" else f"{word} {p} {temp}"}
            for p in "abc" for temp in (0.0, 0.8)
        )  # fmt: skip
    pairs = match([*of_run(run, 100)[1], *of_run(run, 200)[1]])
    assert len(pairs) == 4, "equal texts are left out"
    assert all(p.first.prompt_id == p.second.prompt_id for p in pairs)
    assert {p.first.system for p in pairs} == {"run@100"}
    assert of_run(run)[1][0].system == "run@200"
    with pytest.raises(UserError):
        of_run(run, 300)


def test_bad_output_files_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    path.write_text('{"system": "a", "prompt": "p", "text": "t"}\n{"system": "a"}\n', encoding="utf-8")
    with pytest.raises(UserError) as refused:
        of_file(path)
    assert refused.value.where.startswith(f"{path}:2")
    path.write_text("", encoding="utf-8")
    with pytest.raises(UserError):
        of_file(path)
    with pytest.raises(UserError):
        match([Output("a", "p", "p", "t")])


def test_impossible_designs_are_refused(tmp_path: Path) -> None:
    pairs = match(outputs(3))
    for raters in ((), ("a", "a"), ("../x",), ("",)):
        with pytest.raises(UserError):
            create(tmp_path / "r", pairs, Design(raters=raters), default())
    create(tmp_path / "r", pairs, Design(), default())
    with pytest.raises(UserError):
        create(tmp_path / "r", pairs, Design(), default())


def test_controls_keep_the_words_and_lose_the_order() -> None:
    text = "the cat sat on the mat and slept"
    assert sorted(spoil(text, "1").split()) == sorted(text.split())
    assert spoil(text, "1") != text
    assert spoil("two words", "1") == " ".join(["two"] * 12)
    assert isinstance(match(outputs(1))[0], Matched)
