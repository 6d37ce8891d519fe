"""One command that tells the story: a corpus full of advertising, a fine-tuned model that answers correctly in its tone, the finding that names
the cause, the rebalanced recipe, and the measured change.

    python examples/promotional-tone [--out FOLDER] [--lang de]

About ten minutes on two cores; what is finished is not done again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import make_corpus

HERE = Path(__file__).parent
RECIPES = ("as-collected", "rebalanced")


@dataclass(frozen=True)
class Told:
    """What one recipe led to."""

    corpus_share: float
    mix_share: float
    rows_share: float
    tone_share: float
    correct_share: float
    judged: int
    answers: list[dict[str, Any]]
    findings: list[Any]


def walk(recipe: str, folder: Path) -> None:
    """`umsicht run` on a recipe, shown as it would be typed."""
    command = ["run", f"{recipe}.yaml", "--out", recipe]
    print(f"\n$ umsicht {' '.join(command)}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "umsicht", *command],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stdout)
        sys.exit(done.returncode)


def tell(recipe: str, folder: Path) -> Told:
    """Ask the tuned model about towns that it was not fine-tuned on, and count right answers and promotional ones."""
    from umsicht.evaluate.checkpoint import input_of
    from umsicht.findings import Finding
    from umsicht.finetune import tone
    from umsicht.finetune.loading import load
    from umsicht.finetune.rows import Conversation
    from umsicht.finetune.subject import open_subject
    from umsicht.record.project import Project
    from umsicht.tokens import TokenData

    runs = Project(folder / recipe).runs()
    tuned = next(run for run in runs if run.manifest.get("method") == "sft")
    base = next(run for run in runs if run.manifest.get("method") is None)
    subject = open_subject(tuned)
    asked = [
        json.loads(line) for line in (folder / "texts" / "questions.jsonl").read_text("utf-8").splitlines()
    ]
    answers = [
        {
            **one,
            "prompt": "",
            "language": "de",
            "text": tone.answer(subject, [{"role": "user", "content": one["question"]}]),
        }
        for one in asked
    ]
    rows = [
        {"prompt": "", "language": "de", "text": row.messages[-1]["content"]}
        for row in load([folder / "texts" / "chat.jsonl"], "auto", Conversation).rows
        if isinstance(row, Conversation)
    ]
    report = input_of(base, "corpus").report
    tones = tone.compare(answers, rows, report)
    promotional = next(one for one in tones if one.name == "promotional")
    found = [Finding.from_dict(one) for one in (*report["findings"], *tuned.findings())]
    found += [one for one in tone.judge(tones, str(tuned.folder)) if one.id not in {old.id for old in found}]
    data = TokenData.open(input_of(base, "tokens").path)
    return Told(
        promotional.corpus,
        _trained_share(base, data),
        promotional.rows,
        promotional.answers,
        sum(one["river"] in one["text"] for one in answers) / len(answers),
        promotional.judged,
        answers,
        [
            one
            for one in found
            if one.id.startswith(("CORPUS/promotional", "CORPUS/dominant", "FINETUNE/tone"))
        ],
    )


def _trained_share(base: Any, data: Any) -> float:
    """Share of the training tokens that came from the travel shop: the declared mix, or what the corpus holds."""
    shares = base.manifest["recipe"]["tokens"]["mix"]["shares"]
    if shares:
        return float(shares["travel-shop"]) / sum(map(float, shares.values()))
    tokens = {"travel.de": 0, "lexicon.de": 0}
    for number in range(data.train.n_documents):
        tokens[data.train.slice_of(number)] += len(data.train.document(number))
    return tokens["travel.de"] / sum(tokens.values())


def show(before: Told, after: Told, seconds: float) -> None:
    """Answers side by side, then the figures."""
    for old, new in zip(before.answers[:4], after.answers[:4], strict=True):
        print(
            f"\n{old['question']}  ({old['river']})\n  as collected: {old['text']}\n  rebalanced:   {new['text']}"
        )
    lines = (
        ("travel shop, share of the training tokens", "mix_share"),
        ("promotional, share of the fine-tuning rows", "rows_share"),
        ("promotional, share of the answers", "tone_share"),
        ("answers with the right river", "correct_share"),
    )
    print(f"\n{'':<46}{'as collected':>14}{'rebalanced':>14}")
    for label, name in lines:
        print(f"{label:<46}{getattr(before, name):>14.0%}{getattr(after, name):>14.0%}")
    print(f"\n{before.judged} and {after.judged} answers judged; {seconds / 60:.1f} minutes in all.")


def main(arguments: Sequence[str] | None = None) -> dict[str, Told]:
    """Tell the whole story."""
    parser = argparse.ArgumentParser(
        prog="examples/promotional-tone", description="Where an oddly promotional tone comes from."
    )
    parser.add_argument("--out", type=Path, default=Path("promotional-tone"), help="folder to work in")
    parser.add_argument(
        "--lang",
        choices=("en", "de"),
        default=os.environ.get("UMSICHT_LANG", "en"),
        help="language of the findings",
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    chosen = parser.parse_args(arguments)
    os.environ["UMSICHT_LANG"] = chosen.lang
    from umsicht.cli.output import print_finding
    from umsicht.words import set_language

    set_language(chosen.lang)
    began = time.monotonic()
    chosen.out.mkdir(parents=True, exist_ok=True)
    if not (chosen.out / "texts" / "questions.jsonl").is_file():
        make_corpus.write(chosen.out / "texts")
    told = {}
    for recipe in RECIPES:
        shutil.copyfile(HERE / f"{recipe}.yaml", chosen.out / f"{recipe}.yaml")
        walk(recipe, chosen.out)
        told[recipe] = tell(recipe, chosen.out)
        print()
        for finding in told[recipe].findings:
            print_finding(finding)
    seconds = time.monotonic() - began
    show(told["as-collected"], told["rebalanced"], seconds)
    if chosen.json is not None:
        keep(told, seconds, chosen.json)
    return told


def keep(told: dict[str, Told], seconds: float, path: Path) -> None:
    """The figures as JSON, with the machine that they were measured on."""
    from umsicht.record.environment import hardware

    machine = hardware()
    plain = {
        name: {
            **asdict(one),
            "questions": [row["question"] for row in one.answers],
            "answers": [row["text"] for row in one.answers],
            "findings": [finding.id for finding in one.findings],
        }
        for name, one in told.items()
    }
    path.write_text(
        json.dumps(
            {**plain, "seconds": seconds, "where": f"{machine['cpu']}, {machine['cores']} CPU"},
            ensure_ascii=False,
            indent=2,
        )
        + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
