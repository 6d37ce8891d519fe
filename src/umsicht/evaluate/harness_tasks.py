"""The harness's own task definitions pointed at local rows: nothing is fetched, and what was asked has a digest.

A known task includes the definition that lm-evaluation-harness ships; only where the rows come from is replaced. Rows may stand in
the columns of that definition, or in the plain form `query, choices, gold` (`context, continuation`; `context_options,
continuation, gold`), which is turned into those columns.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from umsicht.findings import UserError
from umsicht.record.ids import content_id
from umsicht.words import t

Row = dict[str, Any]
LETTERS = "ABCDEFGHIJ"


@dataclass(frozen=True)
class Known:
    """A definition by its place among the harness's tasks, a column by which its own rows are told, and how plain rows become such."""

    definition: str
    column: str
    converted: Callable[[Row], Row]


def _lettered(question: str) -> Callable[[Row], Row]:
    def converted(row: Row) -> Row:
        labels = list(LETTERS[: len(row["choices"])])
        text = str(row["query"]).removeprefix("Question: ").strip()
        return {
            question: text,
            "choices": {"text": [str(c) for c in row["choices"]], "label": labels},
            "answerKey": labels[int(row["gold"])],
        }

    return converted


def _piqa(row: Row) -> Row:
    one, two = map(str, row["choices"])
    goal = str(row["query"]).removeprefix("Question: ").strip()
    return {"goal": goal, "sol1": one, "sol2": two, "label": int(row["gold"])}


def _copa(row: Row) -> Row:
    connectors = {"therefore": "effect", "because": "cause"}
    premise, _, connector = str(row["query"]).rstrip().rpartition(" ")
    one, two = map(str, row["choices"])
    return {
        "premise": premise.rstrip(",. ") + ".",
        "question": connectors[connector],
        "choice1": one,
        "choice2": two,
        "label": int(row["gold"]),
    }


def _boolq(row: Row) -> Row:
    passage, _, rest = str(row["query"]).partition("\nQuestion: ")
    question = rest.partition("\nAnswer")[0].rstrip("? ")
    is_true = str(row["choices"][int(row["gold"])]).strip().lower() in ("yes", "true")
    return {"passage": passage.removeprefix("Passage: "), "question": question, "label": int(is_true)}


def _winogrande(row: Row) -> Row:
    one, two = (str(option).split(" ") for option in row["context_options"])
    same = next(i for i, pair in enumerate(zip(one, two, strict=False)) if pair[0] != pair[1])
    sentence = " ".join([*one[:same], "_", str(row["continuation"])])
    answer = str(int(row["gold"]) + 1)
    return {
        "sentence": sentence,
        "option1": " ".join(one[same:]),
        "option2": " ".join(two[same:]),
        "answer": answer,
    }


def _lambada(row: Row) -> Row:
    return {"text": f"{str(row['context']).rstrip()} {str(row['continuation']).strip()}"}


def _as_it_is(row: Row) -> Row:
    raise KeyError("sentence_good")


KNOWN = {
    "arc_easy": Known("arc/arc_easy.yaml", "answerKey", _lettered("question")),
    "arc_challenge": Known("arc/arc_challenge.yaml", "answerKey", _lettered("question")),
    "openbookqa": Known("openbookqa/openbookqa.yaml", "answerKey", _lettered("question_stem")),
    "piqa": Known("piqa/piqa.yaml", "goal", _piqa),
    "copa": Known("super_glue/copa/default.yaml", "premise", _copa),
    "boolq": Known("super_glue/boolq/default.yaml", "passage", _boolq),
    "winogrande": Known("winogrande/default.yaml", "sentence", _winogrande),
    "lambada_openai": Known("lambada/lambada_openai.yaml", "text", _lambada),
    "blimp": Known("blimp/_template_yaml", "sentence_good", _as_it_is),
}

BITS_PER_BYTE = """\
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list:
  - {metric: bits_per_byte}
  - {metric: byte_perplexity}
  - {metric: word_perplexity}
metadata: {version: 1.0}
"""
"""The task `bits_per_byte`: whole texts (`{"text": …}`), as the harness's own task wikitext scores its pages."""
NAMES = (*KNOWN, "bits_per_byte")


@dataclass(frozen=True)
class LocalTask:
    """A task written to a folder: the definition beside its rows; `digest` names rows and definition."""

    name: str
    yaml: Path
    rows: int
    digest: str


def write(name: str, file: Path, folder: Path) -> LocalTask:
    """Write the task `name` (one of `NAMES`, or the path of a task's YAML) over the rows of `file` (.jsonl, .json, also .gz) into
    `folder`. Raises UserError for an unknown name and for rows of another form, naming the first."""
    rows = _read(file)
    known = KNOWN.get(name)
    if known is not None:
        definition = f"include: {_packaged() / known.definition}\n"
        rows = [_converted(known, row, number, file) for number, row in enumerate(rows, 1)]
    elif name == "bits_per_byte":
        definition = BITS_PER_BYTE
    elif Path(name).is_file():
        definition = f"include: {Path(name).resolve()}\n"
        name = Path(name).stem
    else:
        raise UserError(
            t("evaluate.harness_unknown", name=name),
            fix=t("evaluate.harness_unknown.fix", known=", ".join(NAMES)),
        )
    data = folder / f"{name}.jsonl"
    data.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    yaml = folder / f"{name}.yaml"
    yaml.write_text(
        f"{definition}task: {name}\ndataset_path: json\ndataset_name: null\n"
        f"dataset_kwargs: {{data_files: {{test: {data}}}, cache_dir: {folder / 'cache'}}}\n"
        "training_split: null\nvalidation_split: null\nfewshot_split: null\ntest_split: test\nnum_fewshot: 0\n",
        encoding="utf-8",
    )
    return LocalTask(name, yaml, len(rows), content_id([_plain_definition(definition), name, rows]))


def _plain_definition(definition: str) -> str:
    """What a definition says, wherever it lies."""
    place = definition.removeprefix("include: ").strip()
    if place == definition.strip():
        return definition
    path = Path(place)
    return f"{path.parent.name}/{path.name}\n{path.read_text(encoding='utf-8')}"


def _packaged() -> Path:
    from importlib.util import find_spec

    found = find_spec("lm_eval")
    if found is None or not found.submodule_search_locations:
        raise missing()
    return Path(next(iter(found.submodule_search_locations))) / "tasks"


def missing() -> UserError:
    """The harness is not installed."""
    return UserError(t("evaluate.harness_missing"), fix="pip install 'umsicht[eval]'")


def _converted(known: Known, row: Any, number: int, file: Path) -> Row:
    try:
        plain: Row = row
        return plain if known.column in plain else known.converted(plain)
    except (KeyError, TypeError, ValueError, IndexError, StopIteration, AttributeError) as error:
        raise UserError(
            t("evaluate.task_broken", file=file),
            where=f"{file}:{number}: {error!r}",
            fix=t("evaluate.harness_rows.fix", column=known.column),
        ) from None


def _read(file: Path) -> list[Row]:
    if not file.is_file():
        raise UserError(t("evaluate.task_missing", file=file))
    try:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        if file.name.removesuffix(".gz").endswith(".json") and data.lstrip()[:1] == b"[":
            rows: Sequence[Any] = orjson.loads(data)
        else:
            rows = [orjson.loads(line) for line in data.split(b"\n") if line.strip()]
    except (OSError, EOFError, orjson.JSONDecodeError) as error:
        raise UserError(
            t("evaluate.task_broken", file=file), where=f"{file}: {error}", fix=t("evaluate.task_broken.fix")
        ) from None
    if not rows:
        raise UserError(t("evaluate.task_broken", file=file), fix=t("evaluate.task_broken.fix"))
    return list(rows)


def offline() -> None:
    """Tell the harness's libraries before their import that there is no network, and that nobody counts what is done."""
    os.environ.update(
        HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_EVALUATE_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1",
        HF_UPDATE_DOWNLOAD_COUNTS="0", TOKENIZERS_PARALLELISM="false",
    )  # fmt: skip
