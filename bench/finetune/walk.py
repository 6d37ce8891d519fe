"""The walk as a user takes it, verb by verb; each step gives figures."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import pydoc_data.topics
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from bench.finetune.project import write_rows
from umsicht.cli.main import main
from umsicht.finetune import merged, open_subject
from umsicht.finetune.bring_in import bring_in
from umsicht.finetune.exporting import probe_ids
from umsicht.model.gguf_file import read_gguf
from umsicht.ratings import Round
from umsicht.ratings.outputs import spoil
from umsicht.record import Run
from umsicht.record.project import Project

RECIPE = """\
name: walk
preset: {preset}
{more}
finetune:
  stages:
    - {{method: sft, data: [answers.jsonl], epochs: 2, batch_rows: 8}}
    - {{method: dpo, data: [pairs.jsonl], epochs: 1, batch_rows: 8}}
"""
PRESETS = {
    "tiny": "model: {seq_len: 128}\ntrain: {budget: {steps: 500}}\n"
    "evaluate: {samples: {seeds: [0, 1, 2, 3, 4, 5], temperatures: [0.8], max_new_tokens: 24, count: 0}}",
    "quickstart": "evaluate: {samples: {seeds: [0, 1, 2], temperatures: [0.4], max_new_tokens: 40, count: 2}}",
}
LONGEST = 160
"""Characters of an answer: prompt and answer fit into the smallest context."""


def cli(*words: str) -> tuple[int, str]:
    """(exit code, what went to standard output) of a verb."""
    raw = io.BytesIO()
    code = 0
    with contextlib.redirect_stdout(io.TextIOWrapper(raw, encoding="utf-8", write_through=True)):
        try:
            main(list(words))
        except SystemExit as ended:
            code = int(ended.code or 0)
        return code, raw.getvalue().decode("utf-8")


def paragraphs() -> Iterator[tuple[str, str]]:
    """(topic, short paragraph) of the standard library's reference."""
    for topic, text in sorted(pydoc_data.topics.topics.items()):
        for block in text.split("\n\n"):
            plain = " ".join(block.split())
            if 40 <= len(plain) <= LONGEST and plain.endswith(".") and plain[0].isupper():
                yield topic, plain


def write_data(folder: Path, limit: int) -> None:
    """Answers (a paragraph about a topic) and pairs (the paragraph against its words in disorder)."""
    found = list(paragraphs())
    random.Random(0).shuffle(found)
    asked = [(f"Write about {topic}.", text) for topic, text in found[:limit]]
    answers = [
        {"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}]} for q, a in asked
    ]
    write_rows(folder / "answers.jsonl", answers)
    pairs = [{"prompt": q, "chosen": a, "rejected": spoil(a, a)} for q, a in asked]
    write_rows(folder / "pairs.jsonl", pairs)


def walked(folder: Path, preset: str, limit: int) -> dict[str, Run]:
    """`umsicht run` on one recipe: base, sft and dpo runs by stage. Asserts that the walk ends well."""
    write_data(folder, limit)
    (folder / "walk.yaml").write_text(RECIPE.format(preset=preset, more=PRESETS[preset]), encoding="utf-8")
    code, out = cli("run", str(folder / "walk.yaml"), "--out", str(folder / "walk"))
    assert code == 0, out
    return by_method(folder / "walk")


def tuned(folder: Path, base: str, limit: int) -> dict[str, Run]:
    """The two stages on a base that exists already: `umsicht finetune BASE --recipe`."""
    write_data(folder, limit)
    (folder / "walk.yaml").write_text(RECIPE.format(preset="quickstart", more=""), encoding="utf-8")
    code, out = cli("finetune", base, "--recipe", str(folder / "walk.yaml"))
    assert code == 0, out
    return by_method(Path(base))


def by_method(project: Path) -> dict[str, Run]:
    """The newest run of each kind: base, sft, dpo."""
    found: dict[str, Run] = {}
    for run in Project(project).runs():
        found.setdefault(str(run.manifest.get("method") or "base"), run)
    return found


def refused(folder: Path, preset: str) -> tuple[int, str]:
    """A base that was hardly trained: (exit code, what was said). The data half is the walk's own."""
    poor = folder / "poor.yaml"
    poor.write_text(RECIPE.format(preset=preset, more=PRESETS[preset]), encoding="utf-8")
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code, out = cli("run", str(poor), "--out", str(folder / "walk"), "--set", "train.budget.steps=3")
    return code, said.getvalue() + out


def rated(base: Run, other: Run, name: str) -> dict[str, Any]:
    """Outputs of both rated by two scripted raters through the file interface: the result as JSON.

    The raters prefer the tuned model's text in a known share of the pairs, and tell a text that no model wrote (a control) apart.
    """
    for run in (base, other):
        if not run.samples():
            code, out = cli("evaluate", str(run.folder))
            assert code == 0, out
    code, out = cli(
        "rate", "new", str(base.folder), str(other.folder), "--raters", "anna", "ben", "--name", name
    )
    assert code == 0, out
    one = Round(other.folder / "ratings" / name)
    liked = {str(row["text"]) for row in other.samples()}
    known = liked | {str(row["text"]) for row in base.samples()}
    for rater, ending in zip(one.raters, ("csv", "jsonl"), strict=True):
        file = one.folder.parent / f"{rater}.{ending}"
        assert cli("rate", "export", str(one.folder), rater, str(file))[0] == 0
        _fill(file, rater, liked, known)
        assert cli("rate", "import", str(one.folder), str(file))[0] == 0
    code, out = cli("rate", "score", str(one.folder), "--json")
    result: dict[str, Any] = json.loads(out)
    return result


def _fill(file: Path, rater: str, liked: set[str], known: set[str]) -> None:
    if file.suffix == ".csv":
        rows = list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8-sig"), newline="")))
    else:
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row["answer"] = _answer(rater, _bare(row["left"]), _bare(row["right"]), liked, known)
    if file.suffix == ".csv":
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        file.write_text("\ufeff" + buffer.getvalue(), encoding="utf-8")
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _bare(text: str) -> str:
    """Without the apostrophe that keeps spreadsheets from running a text."""
    return text[1:] if text[:1] == "'" and text[1:2] in "=+-@\t\r" else text


def _answer(rater: str, left: str, right: str, liked: set[str], known: set[str]) -> str:
    """The same whichever side a text stands on and however often a pair is shown: one opinion a pair (85 % for the tuned model),
    from which a rater departs in one pair of twenty. The tuned model's share is then 0.82."""
    if (left in known) != (right in known):
        return "left" if left in known else "right"
    pair = "|".join(sorted((left, right)))
    opinion = random.Random(pair).random() < 0.85
    departs = random.Random(f"{rater}|{pair}").random() < 0.05
    takes_liked = opinion != departs
    return "left" if (left in liked) == takes_liked else "right"


def exported(run: Run, folder: Path) -> dict[str, float]:
    """Both formats, reloaded: largest differences of logits, in this process and (the folder) in a fresh one without our code."""
    subject = open_subject(run)
    model = merged(subject.model)
    ids = probe_ids(subject.tokenizer, model.config.seq_len)
    with torch.no_grad():
        logits = model(ids)
    assert cli("export", str(run.folder), str(folder / "hf"))[0] == 0
    assert cli("export", str(run.folder), str(folder / "model.gguf"), "--format", "gguf-f32")[0] == 0
    with torch.no_grad():
        again = open_subject(bring_in(folder / "hf", folder / "back")).model(ids)
        packed = read_gguf(folder / "model.gguf", model.config)(ids)
    figures = {
        "Hugging Face folder, brought in again: logits": float((again - logits).abs().max()),
        "GGUF f32, read back: logits": float((packed - logits).abs().max()),
    }
    save_file({"ids": ids, "logits": logits.contiguous()}, folder / "expected.safetensors")
    fresh = in_fresh_process(folder)
    if fresh is not None:
        figures["Hugging Face folder, transformers in a fresh process, offline: logits"] = fresh
    return figures


def in_fresh_process(folder: Path) -> float | None:
    """transformers alone; None where it is not installed."""
    code = (
        "import sys, torch; from safetensors.torch import load_file;"
        "from transformers import AutoModelForCausalLM as M; e = load_file(sys.argv[2]);"
        "m = M.from_pretrained(sys.argv[1], dtype=torch.float32).eval();"
        "print(float((m(e['ids']).logits - e['logits']).abs().max()))"
    )
    arguments = [sys.executable, "-c", code, str(folder / "hf"), str(folder / "expected.safetensors")]
    done = subprocess.run(arguments, capture_output=True, text=True)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else None
