"""Run by torchrun: trains the toy model in a run folder, as one rank of several. Arguments: a JSON object."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from toy import ToyModel, ToySource, settings

from umsicht.recipe.parallel import ParallelSettings
from umsicht.record import Run
from umsicht.train import CallHook, StopRun, Trainer, View
from umsicht.train.parallel import layout_of
from umsicht.train.ranks import join, leave


def hooks(wanted: dict[str, Any]) -> tuple[CallHook, ...]:
    """What a test plants in one rank."""
    rank = int(os.environ.get("RANK", "0"))
    found = []

    def interrupt(view: View) -> None:
        if view.step == wanted["interrupt"] and rank == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    def skip(view: View) -> str | None:
        return "skip" if view.step == wanted["skip"] and rank == 1 else None

    def drift(view: View) -> None:
        if view.step == wanted["drift"] and rank == 1:
            next(iter(view.model.parameters())).data[0, 0] += 1e-3

    def stop(view: View) -> None:
        from umsicht.findings import Finding

        if view.step == wanted["stop"] and rank == 1:
            raise StopRun(
                Finding(
                    "NUMERIC/not-finite",
                    "stop",
                    "train",
                    "planted",
                    {"step": view.step, "loss": "1", "grad_norm": "1"},
                )
            )

    moments = {
        "interrupt": "after_step",
        "skip": "after_backward",
        "drift": "after_step",
        "stop": "after_backward",
    }
    for name, call in (("interrupt", interrupt), ("skip", skip), ("drift", drift), ("stop", stop)):
        if name in wanted:
            found.append(CallHook(name, call, moment=moments[name]))  # type: ignore[arg-type]
    return tuple(found)


def main() -> None:
    wanted = json.loads(sys.argv[1])
    parallel = ParallelSettings.model_validate(wanted.get("parallel", {}))
    ranks = join(parallel.timeout_s)
    for case in wanted["cases"]:
        folder = Path(case["folder"])
        if ranks.is_first and not (folder / "manifest.json").exists():
            Run.create(folder, {"name": folder.name, "recipe": {}, "inputs": {}, "seed": 0})
        ranks.barrier()
        trainer = Trainer(
            ToyModel(dropout=case.get("dropout", 0.0)),
            ToySource(rows=case.get("rows", 8)),
            settings(
                case.get("steps", 8),
                **{"global_batch_tokens": 16 * case.get("rows", 8), **case.get("settings", {})},
            ),
            Run.open(folder),
            hooks=hooks(case),
            reduction=layout_of(parallel, ranks),
        )
        outcome = trainer.fit()
        if ranks.is_first:
            said = {"reason": outcome.reason, "step": outcome.step, "signal": outcome.signal}
            said["finding"] = outcome.finding.id if outcome.finding else ""
            (folder / "outcome.json").write_text(json.dumps(said))
    leave()


if __name__ == "__main__":
    main()
