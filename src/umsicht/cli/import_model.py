"""`umsicht import`: bring in a Hugging Face model as a run."""

from __future__ import annotations

from pathlib import Path

from umsicht.cli.output import print_json
from umsicht.cli.projects import find_run, project_of
from umsicht.words import numerals, t


def import_model(
    folder: Path,
    *,
    out: Path | None = None,
    name: str | None = None,
    like: str | None = None,
    json: bool = False,
) -> int:
    """Bring in a Hugging Face model (Qwen3, Llama, NanoChat, GPT-2) as a run, to evaluate, fine-tune or sample it.

    Parameters
    ----------
    folder
        The folder with config.json, model.safetensors and tokenizer.json.
    out
        The project's folder; by default the one around the current folder.
    name
        Name of the run; by default the folder's.
    like
        A run on whose held-out text this model is to be evaluated.
    json
        Print JSON.
    """
    from umsicht.finetune.bring_in import bring_in

    project = out or project_of(Path.cwd()).folder
    run = bring_in(folder, project, name=name, like=find_run(like) if like else None)
    weights = run.manifest["model"]["n_parameters"]
    if json:
        print_json({"run": str(run.folder), "model": run.manifest["model"]})
    else:
        print(t("finetune.import_done", run=run.name, parameters=numerals(f"{weights:,}")))
    return 0
