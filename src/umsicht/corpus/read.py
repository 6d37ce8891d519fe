"""The first stage: sources become partitions, and what must not be trained on is known before a document is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from umsicht.corpus.context import Context, Partitions
from umsicht.corpus.prepare import PrepareTask, group_units, prepare
from umsicht.corpus.protect import fingerprint
from umsicht.findings import UserError
from umsicht.words import t


def protect(context: Context) -> None:
    """Fingerprint the protected sets, unless an interrupted build did."""
    if context.protected.sets and not context.fingerprints.exists():
        known = fingerprint(context.protected.pieces())
        known.save(context.fingerprints)
        context.notes["unusable_pieces"] = known.unusable


def run(context: Context) -> tuple[list[dict[str, Any]], Partitions]:
    """Read, normalise and label: results of the tasks, and the partitions that they wrote.

    Raises UserError for a source of which nothing is left.
    """
    prepared = run_tasks(context)
    for result in prepared:
        context.ledger.merge(result["ledger"])
    read = [part for result in prepared for part in result["parts"]]
    for source in context.source_names:
        if not context.ledger.get(source, "normalise")[0]:
            raise _empty(source, prepared)
    if not read:
        raise _empty(context.source_names[0], prepared)
    listing = context.work.folder / "indexes.json"
    return prepared, Partitions.of(context.work.stage("read"), read, context.source_names, listing)


def run_tasks(context: Context, share: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    """The tasks of this stage; with `share` = (k, n) just this share of them, for a job array."""
    settings, folder = context.settings, context.work.stage("read")
    groups = list(group_units(context.plan.units, settings.partition_bytes))
    tasks = [PrepareTask.of(number, group, folder, settings) for number, group in enumerate(groups)]
    sizes = [sum(unit.bytes for unit in group) / 1e6 for group in groups]
    only = None if share is None else range(share[0] - 1, len(tasks), share[1])
    return context.run("read", prepare, tasks, t("corpus.stage.read"), sizes, only)


def _empty(source: str, prepared: Sequence[Mapping[str, Any]]) -> UserError:
    reasons = [
        f"{reason}: {n}" for result in prepared for name, reason, n in result["broken"] if name == source
    ]
    return UserError(
        t("corpus.empty.what", source=source),
        where=f"corpus.sources.{source}",
        why="; ".join(reasons) or t("corpus.empty.why"),
        fix=t("corpus.empty.fix"),
    )
