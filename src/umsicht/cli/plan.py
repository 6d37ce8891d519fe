"""`umsicht plan`: what a training will cost and reach, which context the data fill, and a cluster on paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cyclopts

from umsicht.cli.options import require
from umsicht.cli.output import amount, duration, human, print_finding, print_json, print_table
from umsicht.cli.plan_sweep import sweep
from umsicht.cli.walks import material_of, open_quietly
from umsicht.findings import Finding, UserError
from umsicht.words import numerals, t

plan = cyclopts.App(name="plan", help=t("cli.verb.plan"))


plan.command(sweep)


@plan.default
def budget(
    recipe: Path,
    *,
    out: Path | None = None,
    measure: bool = False,
    seconds: float = 200.0,
    json: bool = False,
    dry_run: bool = False,
) -> int:
    """What the recipe's training takes: operations, memory, time, money with one restart, and the score if the family was measured.

    Exit code 1 where a finding of grade stop is raised.

    Parameters
    ----------
    recipe
        The recipe file. Its corpus, tokenizer and tokens are made first, where they do not exist yet.
    out
        Folder of the project.
    measure
        Train a ladder of small models of the family on this machine first, and predict the score from it. Kept for this machine and family.
    seconds
        How long the measurement may take.
    json
        Print JSON.
    dry_run
        Print the settings and stop.
    """
    from umsicht.plan import measure as measuring
    from umsicht.plan.stage import build

    walk = open_quietly(recipe, out, json)
    if dry_run:
        print_json(walk.recipe.plan.plain())
        return 0
    from umsicht.pipeline.planning import measure_inputs, plan_inputs

    material = material_of(walk)
    inputs = measure_inputs(material)
    measured = (
        measuring.measure(inputs, seconds, progress=walk.progress) if measure else measuring.find(inputs)
    )
    made = build(walk.recipe.plan, plan_inputs(material, measured), progress=walk.progress)
    said = made.report
    findings = [Finding.from_dict(plain) for plain in said["findings"]]
    if json:
        print_json({**said, "path": str(made.path)})
    else:
        _show(said, walk.recipe, recipe)
        for finding in findings:
            print_finding(finding)
    return int(any(finding.grade == "stop" for finding in findings))


@plan.command
def context(
    recipe: Path, *, seq_len: list[int] | None = None, out: Path | None = None, json: bool = False
) -> int:
    """Which context length the data can fill, and what each length and packing pads, cuts and costs.

    Parameters
    ----------
    recipe
        The recipe file.
    seq_len
        Lengths to look at (as often as needed); by default powers of two from 128 to 32,768.
    out
        Folder of the project.
    json
        Print JSON.
    """
    from umsicht.plan import context as analysis

    walk = open_quietly(recipe, out, json)
    material = material_of(walk)
    said = analysis.analyse(material.data.train, material.config, seq_len or analysis.CANDIDATES)
    findings = analysis.findings(said, material.config, walk.recipe.tokens.packing)
    if json:
        print_json({**said.to_dict(), "findings": [finding.to_dict() for finding in findings]})
        return 0
    labels = ("documents", "least", "q25", "median", "q75", "q95", "largest")
    rows: list[Sequence[object]] = [
        (name, *(q[label] for label in labels)) for name, q in said.quantiles.items()
    ]
    print_table([t("tokenizer.column.slice"), *labels], rows, title=t("plan.lengths.title"))
    names = ("seq_len", "packing", "rows", "padding", "cropped", "cut", "filled", "attention")
    rows = [
        (
            one.seq_len,
            one.packing,
            one.rows,
            *(f"{100 * share:.1f} %" for share in (one.padding, one.cropped, one.documents_cut, one.filled)),
            f"{100 * said.attention_share[one.seq_len]:.0f} %",
        )
        for one in said.figures
    ]
    title = t("plan.context.title", tokens=amount(said.tokens), documents=numerals(f"{said.documents:,}"))
    print_table([t(f"plan.context.column.{name}") for name in names], rows, title=title)
    print(t("plan.context.recommended", seq_len=said.recommended_seq_len, packing=said.recommended_packing))
    if said.filled_seq_len > said.recommended_seq_len:
        print(t("plan.context.dear", filled=said.filled_seq_len, seq_len=said.recommended_seq_len))
    if said.quantiles["all"]["median"] < material.config.seq_len // 4:
        print(t("plan.context.short", short=max(8, material.config.seq_len // 4)))
    for finding in findings:
        print_finding(finding)
    return 0


@plan.command
def cluster(
    recipe: Path,
    *,
    tokens: float,
    devices: list[int] | None = None,
    device: str = "H100-SXM",
    vocab_size: int | None = None,
    mfu: float = 0.4,
    mtbf_device_hours: float = 50_000.0,
    checkpoint_s: float = 30.0,
    restart_s: float = 600.0,
    json: bool = False,
) -> int:
    """The recipe's model on 8, 64 and 1,024 devices, on paper: layout, memory, days, failures, checkpoint interval, useful share.

    Parameters
    ----------
    recipe
        The recipe file; only its model section is read.
    tokens
        Training tokens, e.g. 1e12.
    devices
        Numbers of devices (as often as needed).
    device
        A device with published figures.
    vocab_size
        Size of the vocabulary; by default the recipe's.
    mfu
        Assumed share of the published operations per second that training reaches.
    mtbf_device_hours
        Assumed mean time between failures of one device, in hours.
    checkpoint_s
        Assumed seconds for writing a checkpoint.
    restart_s
        Assumed seconds from a failure to the next step.
    json
        Print JSON.
    """
    from umsicht.model import derive
    from umsicht.plan import model_cost
    from umsicht.plan.cluster import DEVICES, Assumptions, cluster_plan
    from umsicht.recipe import load_recipe

    if device not in DEVICES:
        raise UserError(
            t("plan.cluster.unknown", device=device),
            fix=t("plan.cluster.unknown_fix", known=", ".join(DEVICES)),
        )
    require(0 < tokens < math.inf, "--tokens", tokens, "0 < X")
    require(0 < mfu <= 1, "--mfu", mfu, "0 < X ≤ 1")
    require(0 < mtbf_device_hours < math.inf, "--mtbf-device-hours", mtbf_device_hours, "0 < X")
    require(0 < checkpoint_s < math.inf, "--checkpoint-s", checkpoint_s, "0 < X")
    require(0 <= restart_s < math.inf, "--restart-s", restart_s, "0 ≤ X")
    require(vocab_size is None or vocab_size > 0, "--vocab-size", vocab_size, "0 < X")
    require(min(devices or [1]) > 0, "--devices", min(devices or [1]), "0 < X")
    loaded = load_recipe(recipe, [])
    config = derive(loaded.model, vocab_size or loaded.tokenizer.vocab_size)
    cost = model_cost(config)
    assumed = Assumptions(mfu, mtbf_device_hours, checkpoint_s, restart_s)
    plans = [
        cluster_plan(
            n,
            DEVICES[device],
            parameters=cost.parameters,
            flops_per_token=cost.flops_training,
            tokens=tokens,
            d_model=config.d_model,
            n_layers=config.n_layers,
            seq_len=config.seq_len,
            assumed=assumed,
        )
        for n in (devices or [8, 64, 1024])
    ]
    if json:
        print_json({"device": device, "assumed": vars(assumed), "plans": [one.to_dict() for one in plans]})
        return 0
    columns = ("devices", "layout", "memory", "days", "failures", "interval", "goodput")
    rows = [
        (
            one.layout.devices,
            f"tp {one.layout.tensor} · pp {one.layout.pipeline} · fsdp {one.layout.sharded}",
            human(one.layout.bytes_per_device, "B")
            + ("" if one.layout.fits else f" ({t('plan.cluster.does_not_fit')})"),
            f"{one.days:.3g}",
            f"{one.failures_per_day:.3g}",
            duration(one.interval_s),
            f"{100 * one.goodput:.1f} %",
        )
        for one in plans
    ]
    title = t("plan.cluster.title", parameters=amount(cost.parameters), tokens=amount(tokens))
    print_table([t(f"plan.cluster.column.{name}") for name in columns], rows, title=title)
    print(
        t(
            "plan.cluster.assumed",
            device=device,
            mfu=f"{100 * mfu:.0f}",
            tflops=f"{DEVICES[device].flops_per_s / 1e12:.0f}",
            mtbf=numerals(f"{mtbf_device_hours:,.0f}"),
            checkpoint=f"{checkpoint_s:.0f}",
            restart=f"{restart_s:.0f}",
        )
    )
    return 0


def _show(said: Mapping[str, Any], recipe: Any, path: Path) -> None:
    print_table(["", ""], _rows(said, recipe), title=t("plan.title", name=recipe.name))
    if not said["predicted"]["bpb"]:
        print(t("plan.no_law", recipe=path))


def _rows(said: Mapping[str, Any], recipe: Any) -> Iterable[Sequence[object]]:
    cost, model, parts, memory = said["cost"], said["model"], said["parts"], said["memory"]
    settings = recipe.plan
    yield t("plan.row.parameters"), f"{human(model['parameters'])} / {human(model['body_parameters'])}"
    yield (
        t("plan.row.tokens"),
        f"{human(said['tokens'])} ({human(said['usable_tokens'])}, {said['epochs']:.2f}, {human(said['worth_tokens'])})",
    )
    yield t("plan.row.steps"), f"{said['steps']:,}"
    yield t("plan.row.rate"), human(said["tokens_per_s"])
    for way in said["rates"]:
        compiled = t("plan.compiled") if way["compiled"] else ""
        label = t("plan.row.way", micro_batch=way["micro_batch"], compiled=compiled)
        yield label, f"{human(way['tokens_per_s'])}, {human(way['peak_bytes'], 'B')}"
    yield t("plan.row.training"), duration(said["predicted"]["training_s"])
    yield t("plan.row.parts"), f"{duration(parts['evaluation_s'])} / {duration(parts['checkpoints_s'])}"
    yield t("plan.row.restart"), duration(parts["restart_s"])
    yield t("plan.row.sweep"), duration(parts["sweep_s"])
    yield (
        t("plan.row.total", restarts=settings.restarts, repeats=settings.repeats),
        duration(cost["total_s"]),
    )
    yield t("plan.row.device_hours"), f"{cost['device_hours']:.3g}"
    if cost["money"]:
        yield t("plan.row.money"), f"{cost['money']:,.2f} {settings.currency}"
    if cost["energy_kwh"]:
        yield t("plan.row.energy"), f"{cost['energy_kwh']:.3g} kWh"
    yield t("plan.row.storage"), human(cost["storage_bytes"], "B")
    yield t("plan.row.memory"), f"{human(memory['training'], 'B')} / {human(memory['saving'], 'B')}"
    yield t("plan.row.context", seq_len=recipe.model.seq_len), str(said["context"]["recommended_seq_len"])
    for name, made in said["predicted"]["bpb"].items():
        interval = t(
            "plan.interval",
            value=numerals(f"{made['value']:.3f}"),
            low=numerals(f"{made['low']:.3f}"),
            high=numerals(f"{made['high']:.3f}"),
            level=f"{100 * made['level']:.0f}",
        )
        yield t("plan.row.bpb", slice=name), interval
