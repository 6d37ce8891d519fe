"""`umsicht plan sweep`: learning rate and batch size from small models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from umsicht.cli.output import duration, print_json, print_table
from umsicht.cli.walks import material_of, open_quietly
from umsicht.words import numerals, t


def sweep(recipe: Path, *, seconds: float = 300.0, out: Path | None = None, json: bool = False) -> int:
    """Search the learning rate and the batch size on small models of the recipe's family, and carry them to its width.

    The result is printed as --set arguments; the recipe is not changed.

    Parameters
    ----------
    recipe
        The recipe file.
    seconds
        How long the search may take.
    out
        Folder of the project.
    json
        Print JSON.
    """
    from umsicht.pipeline.planning import measure_inputs
    from umsicht.plan.sweep import sweep as search

    walk = open_quietly(recipe, out, json)
    made = search(measure_inputs(material_of(walk)), seconds, progress=walk.progress)
    if json:
        print_json({**made.report, "path": str(made.path)})
    else:
        _show(made.report)
    return 0


def _show(said: dict[str, Any]) -> None:
    rows: list[Sequence[object]] = [
        (
            one["d_model"],
            f"× {one['factor']:.3g}",
            f"{one['batch_tokens']:,}",
            f"{one['tokens']:,}",
            f"{one['bpb']:.3f}",
            f"{one['seconds']:.0f} s",
        )
        for one in said["tries"]
    ]
    names = ("width", "factor", "batch", "tokens", "bpb", "seconds")
    title = t("plan.sweep.title", time=duration(said["seconds"]))
    print_table([t(f"plan.sweep.column.{name}") for name in names], rows, title=title)
    key = "plan.sweep.carries" if said["carries"] else "plan.sweep.slope"
    if said["small_width"] == said["large_width"]:
        key = "plan.sweep.one_width"
    print(
        t(
            key,
            small=said["small_width"],
            large=said["large_width"],
            at_small=numerals(f"{said['small_factor']:.3g}"),
            at_large=numerals(f"{said['large_factor']:.3g}"),
            target=said["target_width"],
            factor=numerals(f"{said['factor']:.3g}"),
        )
    )
    print(t("plan.sweep.one_seed"))
    for override in said["overrides"]:
        print(f"  --set {override}")
