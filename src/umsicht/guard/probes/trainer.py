"""T10, T11, T14, T21 and the stability rehearsal on Umsicht's own trainer: short real runs, compared to the bit where bits are promised."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional

from umsicht.findings import Finding
from umsicht.guard.probe import Cannot
from umsicht.guard.probes.norm import silent
from umsicht.guard.probes.rehearse import Masked, Recorder, Stage, Trace
from umsicht.guard.probes.wiring import relative_gap, scale_of
from umsicht.guard.subject import Subject, numbers, wake
from umsicht.recipe.train import ScheduleSettings, TrainSettings
from umsicht.tokens.batch import IGNORE, Batch
from umsicht.train.hooks import Hook, View


def stage_of(subject: Subject) -> Stage:
    """The rehearsal stage, or `Cannot`."""
    found: Stage = subject.need("stage", "a trainer")
    return found


# -- T10 -------------------------------------------------------------------------------------------------------------------------
def batch_algebra(subject: Subject) -> Iterator[Finding]:
    """One batch, micro-batches of one, and uneven ones, over a batch whose rows have unequal numbers of targets."""
    stage = stage_of(subject)
    source = Masked(stage.make_source())
    rows = source.batch(0).inputs.shape[0]
    precision = str((stage.machine or {}).get("precision", "float32"))
    limit = 2e-4 if precision == "float32" else 3e-2
    cuts = {"whole": rows, "ones": 1}
    if rows > 2:
        cuts["uneven"] = rows - 1 if rows <= 4 else rows // 2 + 1
    traces: dict[str, Trace] = {}
    for name, micro in cuts.items():
        with silent_models(stage, awake=True) as quiet:
            traces[name] = quiet.trace(
                f"algebra-{name}", source=source, micro_batch=micro, stop_at=1, keep_gradient=True
            )
    with silent_models(stage, awake=True) as quiet:
        want_loss, want = independent(quiet.make_model(), source.batch(0), stage.settings, stage.seed)
    for name, trace in traces.items():
        gap = relative_gap(trace.first_gradient, want)
        factor, cosine = scale_of(trace.first_gradient, want)
        off = abs(trace.losses[0] - want_loss) / max(abs(want_loss), 1e-6)
        counts = numbers(
            gap=gap,
            factor=factor,
            cosine=cosine,
            micro_batches=-(-rows // cuts[name]),
            case=name,
            loss=trace.losses[0],
            reference=want_loss,
            call=1,
        )
        regular = stage.settings.regularisation
        smoothed = bool(regular.label_smoothing or regular.z_loss)
        if gap > limit and not smoothed:
            kind = "LOSS-NORM/divisor" if cosine > 0.9999 else "LOSS-NORM/micro-batches"
            if (
                relative_gap(trace.first_gradient, traces["whole"].first_gradient) < limit
                and cosine <= 0.9999
            ):
                kind = "LOSS-NORM/gradient"
            yield Finding(kind, "stop", "batch-algebra", location="training step", numbers=counts)
            return
        if off > limit:
            yield Finding(
                "LOSS-NORM/reported", "stop", "batch-algebra", location="training step", numbers=counts
            )
            return
        if smoothed and relative_gap(trace.first_gradient, traces["whole"].first_gradient) > limit:
            yield Finding(
                "LOSS-NORM/micro-batches", "stop", "batch-algebra", location="training step", numbers=counts
            )
            return
    yield from _wider(subject, stage, source, limit)


class silent_models:
    """A stage whose models have dropout switched off (and, if asked, no zero-initialised output): sums can be compared then."""

    def __init__(self, stage: Stage, *, awake: bool = False) -> None:
        self.stage = stage
        self.awake = awake
        self.contexts: list[Any] = []

    def __enter__(self) -> Stage:
        import dataclasses

        def make() -> Any:
            model = self.stage.make_model()
            if self.awake:
                wake(model, self.stage.seed)
            context = silent(model)
            context.__enter__()
            self.contexts.append(context)
            return model

        return dataclasses.replace(self.stage, make_model=make)

    def __exit__(self, *_: object) -> None:
        for context in self.contexts:
            context.__exit__(None, None, None)


def independent(
    model: Any, batch: Batch, settings: TrainSettings, seed: int
) -> tuple[float, dict[str, torch.Tensor]]:
    """Mean cross-entropy over active targets and its gradient, written down here from the definition: logits, log-softmax, one sum, one division."""
    count = int((batch.targets != IGNORE).sum())
    model.train()
    total = 0.0
    for start in range(0, batch.inputs.shape[0], 8):
        part = batch.slice(start, start + 8)
        logits = model(part.inputs).float()
        mask = part.targets != IGNORE
        picked = functional.log_softmax(logits[mask], dim=-1).gather(-1, part.targets[mask].unsqueeze(-1))
        loss = -picked.sum() / max(1, count)
        loss.backward()  # type: ignore[no-untyped-call]  # untyped in torch
        total += float(loss.detach())
    return total, {
        name: p.grad.detach().clone() for name, p in model.named_parameters() if p.grad is not None
    }


def _wider(subject: Subject, stage: Stage, source: Any, limit: float) -> Iterator[Finding]:
    """Five columns of padding more: the loss of the objective may not move."""
    model = stage.make_model()
    batch = source.batch(0)
    objective = subject.extra.get("objective")
    if objective is None:
        return
    rows = batch.inputs.shape[0]
    columns = 5
    pad = subject.extra.get("pad_id", 0)
    wider = Batch(
        torch.cat([batch.inputs, torch.full((rows, columns), pad, dtype=batch.inputs.dtype)], dim=1),
        torch.cat([batch.targets, torch.full((rows, columns), IGNORE, dtype=batch.targets.dtype)], dim=1),
        torch.cat(
            [batch.document_ids, torch.full((rows, columns), -1, dtype=batch.document_ids.dtype)], dim=1
        ),
        batch.rows,
    )
    wake(model, stage.seed)
    with torch.no_grad(), silent(model):
        plain, more = float(objective(model, batch).nats), float(objective(model, wider).nats)
    if abs(more - plain) > 5 * limit * abs(plain):
        yield Finding(
            "TARGET-MASK/padding-counts",
            "stop",
            "batch-algebra",
            location="loss",
            numbers=numbers(plain=plain, padded=more, columns=columns),
        )


# -- T11 -------------------------------------------------------------------------------------------------------------------------
class StepAudit(Hook):
    """Compares each step's gradient with one computed apart, its clipped norm, and remembers which weights moved."""

    name = "guard-step-audit"

    def __init__(self, settings: TrainSettings, limit: float) -> None:
        self.settings = settings
        self.limit = limit
        self.findings: list[Finding] = []
        self.before: dict[str, torch.Tensor] = {}
        self.start: dict[str, torch.Tensor] = {}
        self.kept: dict[str, torch.Tensor] = {}
        self.rates: list[float] = []

    def at_start(self, view: View) -> None:
        """Remember the first weights."""
        self.start = {name: p.detach().clone() for name, p in view.model.named_parameters()}

    def after_backward(self, view: View) -> None:
        """The gradient of this step against an independent one at these very weights."""
        got = {
            name: p.grad.detach().clone() for name, p in view.model.named_parameters() if p.grad is not None
        }
        kept = [(p, p.grad) for p in view.model.parameters()]
        for parameter in view.model.parameters():
            parameter.grad = None
        _, want = independent(view.model, view.batch, self.settings, 0)
        for parameter, gradient in kept:
            parameter.grad = gradient
        gap = relative_gap(got, want)
        if gap > self.limit and view.step > 1:
            factor, cosine = scale_of(got, want)
            self.findings.append(
                Finding(
                    "OPT-WIRING/gradient-left-over",
                    "stop",
                    "one-step",
                    location="training step",
                    numbers=numbers(
                        gap=gap, factor=factor, cosine=cosine, call=view.step, micro_batches=1, case="steps"
                    ),
                )
            )
        self.before = {name: p.detach().clone() for name, p in view.model.named_parameters()}
        self.kept = got
        self.rates.append(view.lr)

    def after_step(self, view: View) -> None:
        """What the clip left, and whether weights went down the gradient."""
        clip = self.settings.optimizer.clip_norm
        squares = [p.grad.double().square().sum() for p in view.model.parameters() if p.grad is not None]
        norm = math.sqrt(float(sum(squares))) if squares else 0.0
        raw = math.sqrt(sum(float(value.double().square().sum()) for value in self.kept.values()))
        want = min(raw, clip) if clip else raw
        if abs(norm - want) > 5e-3 * max(want, 1e-9) or abs(view.grad_norm - raw) > 5e-3 * max(raw, 1e-9):
            self.findings.append(
                Finding(
                    "OPT-WIRING/clip",
                    "stop",
                    "one-step",
                    location="optimizer: clip",
                    numbers=numbers(norm=norm, expected=want, raw=raw, clip=clip, reported=view.grad_norm),
                )
            )
        down = sum(
            float(((p.detach() - self.before[name]).double() * self.kept[name].double()).sum())
            for name, p in view.model.named_parameters()
            if name in self.kept
        )
        if down > 0 and view.step == 1:
            self.findings.append(
                Finding(
                    "OPT-WIRING/uphill",
                    "stop",
                    "one-step",
                    location="optimizer",
                    numbers=numbers(rate=view.lr, tensors=len(self.kept), maximize=False),
                )
            )


def one_step(subject: Subject) -> Iterator[Finding]:
    """Five real steps: gradient, clip, rate, direction, what moved, what decays, in which format the moments are."""
    stage = stage_of(subject)
    precision = str((stage.machine or {}).get("precision", "float32"))
    limit = 5e-4 if precision == "float32" else 5e-2
    regular = stage.settings.regularisation
    audit = StepAudit(stage.settings, math.inf if regular.label_smoothing or regular.z_loss else limit)
    with silent_models(stage) as quiet:
        trainer = quiet.trainer("one-step", hooks=[audit], settings=stage.short(5))
        trainer.fit()
        yield from audit.findings[:1]
        if audit.findings:
            return
        yield from _still(subject, trainer, audit)
        yield from _moments(trainer)
    yield from _schedule(stage, audit, trainer)
    yield from _membership(subject, stage)
    yield from _decay(subject, stage)


def _still(subject: Subject, trainer: Any, audit: StepAudit) -> Iterator[Finding]:
    frozen = subject.declared.frozen
    still = [
        name
        for name, p in trainer.model.named_parameters()
        if torch.equal(p.detach(), audit.start[name].to(p.dtype))
        and not any(name.startswith(prefix) for prefix in frozen)
    ]
    if still:
        yield Finding(
            "OPT-WIRING/never-moves",
            "stop",
            "one-step",
            location=f"optimizer: {still[0]}",
            numbers=numbers(
                still=len(still),
                parameters=len(audit.start),
                names=", ".join(still[:5]),
                steps=len(audit.rates),
            ),
        )
        return
    lost = []
    for name, p in trainer.model.named_parameters():
        if p.dim() < 2 or name not in audit.kept:
            continue
        asked = audit.kept[name] != 0
        moved = (p.detach() != audit.start[name].to(p.dtype)) & asked
        share = float(moved.sum()) / max(1, int(asked.sum()))
        if share < 0.5:
            lost.append((name, share, str(p.dtype).removeprefix("torch.")))
    if lost:
        yield Finding(
            "OPT-WIRING/update-lost",
            "stop",
            "one-step",
            location=f"optimizer: {lost[0][0]}",
            numbers=numbers(tensors=len(lost), share=lost[0][1], dtype=lost[0][2], rate=audit.rates[-1]),
        )


def _moments(trainer: Any) -> Iterator[Finding]:
    optimizer = trainer.carried.optimizer
    low = sorted(
        name
        for name, value in optimizer.state_tensors().items()
        if value.is_floating_point() and value.element_size() < 4
    )
    if low:
        yield Finding(
            "NUMERIC/state-half",
            "stop",
            "one-step",
            location=f"optimizer: {low[0]}",
            numbers=numbers(fields=", ".join(low[:3])),
        )


def _membership(subject: Subject, stage: Stage) -> Iterator[Finding]:
    """Every trainable parameter in exactly one group of the real optimizer."""
    from umsicht.train import Optimizer

    model = stage.make_model()
    optimizer = Optimizer(model, stage.settings.optimizer)
    inside = [id(p) for p in optimizer.parameters]
    missing = [
        n
        for n, p in model.named_parameters()
        if id(p) not in set(inside) and not any(n.startswith(f) for f in subject.declared.frozen)
    ]
    doubled = len(inside) - len(set(inside))
    if missing:
        yield Finding(
            "OPT-WIRING/missing",
            "stop",
            "one-step",
            location=f"optimizer: {missing[0]}",
            numbers=numbers(
                missing=len(missing), parameters=len(list(model.parameters())), names=", ".join(missing[:5])
            ),
        )
    if doubled:
        yield Finding(
            "OPT-WIRING/doubled", "stop", "one-step", location="optimizer", numbers=numbers(doubled=doubled)
        )


def _decay(subject: Subject, stage: Stage) -> Iterator[Finding]:
    """A step with zero gradients: matrices shrink by 1 - rate · decay, vectors (and tables, unless declared) stay to the bit."""
    from umsicht.train import Optimizer

    model = stage.make_model()
    wake(model, stage.seed)
    settings = stage.settings.optimizer
    optimizer = Optimizer(model, settings)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step(1.0)
    wrong: list[tuple[str, float, float]] = []
    for group in optimizer.groups:
        decays = group.role == "matrix" or (settings.decay_embeddings and group.role in ("embedding", "head"))
        want = 1.0 - group.rate * settings.weight_decay if decays else 1.0
        for name, parameter in zip(group.names, group.parameters, strict=True):
            if float(before[name].float().norm()) == 0.0:
                continue
            got = float(
                (parameter.detach().double() * before[name].double()).sum()
                / before[name].double().square().sum()
            )
            if abs(got - want) > 1e-3 * abs(1 - want) + 1e-6:
                wrong.append((name, got, want))
    vectors = [row for row in wrong if row[2] == 1.0]
    if vectors:
        yield Finding(
            "OPT-WIRING/decay-on-vectors",
            "stop",
            "one-step",
            location=f"optimizer: {vectors[0][0]}",
            numbers=numbers(
                vectors=len(vectors),
                decay=settings.weight_decay,
                names=", ".join(row[0] for row in vectors[:5]),
            ),
        )
    elif wrong:
        yield Finding(
            "OPT-WIRING/decay-amount",
            "stop",
            "one-step",
            location=f"optimizer: {wrong[0][0]}",
            numbers=numbers(
                tensors=len(wrong), found=wrong[0][1], expected=wrong[0][2], decay=settings.weight_decay
            ),
        )


def closed_form(settings: ScheduleSettings, total: int, step: int) -> float:
    """The declared learning-rate factor, written down again from the recipe's words, so that a change in the code that trains is seen."""
    warmup = (
        min(settings.warmup_steps, total)
        if settings.warmup_steps is not None
        else round(settings.warmup_share * total)
    )
    if step < warmup:
        return (step + 1) / warmup
    end = max(total, warmup + 1)
    step = min(step, end - 1)
    span = (step - warmup) / (end - warmup)
    if settings.shape == "wsd":
        start = max(warmup, total - round(settings.decay_share * total))
        done = 0.0 if step < start else (step - start) / max(1, end - start)
        value = 1 - (math.sqrt(done) if settings.decay == "sqrt" else done)
    elif settings.shape == "constant":
        value = 1.0
    elif settings.shape == "cosine":
        value = (1 + math.cos(math.pi * span)) / 2
    elif settings.shape == "linear":
        value = 1 - span
    elif settings.shape == "inverse_sqrt":
        value = math.sqrt(max(1, warmup) / (step - warmup + max(1, warmup)))
    else:
        place = span * settings.cycles
        whole = math.floor(place)
        value = settings.cycle_decay**whole * (1 + math.cos(math.pi * (place - whole))) / 2
    return settings.floor + (1 - settings.floor) * value


def _schedule(stage: Stage, audit: StepAudit, trainer: Any) -> Iterator[Finding]:
    """Rates of the real loop at its first steps, and of the planned run at many steps, against the closed form."""
    from umsicht.train.groups import resolved_rates
    from umsicht.train.schedule import Schedule

    settings = stage.settings.schedule
    rates = resolved_rates(stage.settings.optimizer)
    first = trainer.carried.optimizer.groups[0]
    base = rates[first.role]
    for step, rate in enumerate(audit.rates):
        want = base * closed_form(settings, 5, step)
        if abs(rate - want) > 1e-6 * max(base, want):
            yield Finding(
                "OPT-WIRING/schedule",
                "stop",
                "one-step",
                location=f"schedule: step {step}",
                numbers=numbers(step=step, rate=rate, expected=want),
            )
            return
    total = max(stage.steps, 1000)
    planned = Schedule(settings, total)
    for step in sorted({*range(21), *(round(total * part / 40) for part in range(41))}):
        got, want = planned.factor(step), closed_form(settings, total, step)
        if abs(got - want) > 1e-6:
            yield Finding(
                "OPT-WIRING/schedule",
                "stop",
                "one-step",
                location=f"schedule: step {step}",
                numbers=numbers(step=step, rate=got, expected=want),
            )
            return


# -- stability -------------------------------------------------------------------------------------------------------------------
class Short:
    """A source whose rows are cut to their first quarter: a cheap look at the first steps."""

    def __init__(self, source: Any, length: int) -> None:
        self.source, self.length = source, length

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    @property
    def tokens_per_batch(self) -> int:
        """Targets of a cut batch."""
        return int(self.source.batch(0).inputs.shape[0]) * self.length

    def _cut(self, batch: Batch) -> Batch:
        n = self.length
        return Batch(
            batch.inputs[:, :n].contiguous(),
            batch.targets[:, :n].contiguous(),
            batch.document_ids[:, :n].contiguous(),
            batch.rows,
        )

    def batch(self, step: int) -> Batch:
        """The cut global batch."""
        return self._cut(self.source.batch(step))

    def micro_batches(self, step: int, rows: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """Cut micro-batches."""
        for part in self.source.micro_batches(step, rows, rank, world):
            yield self._cut(part)


def stability(subject: Subject) -> Iterator[Finding]:
    """Fifty steps on short rows at the full learning rate: does it blow up?"""
    stage = stage_of(subject)
    steps = int(subject.extra.get("stability_steps", 50))
    if steps < 10:
        raise Cannot("no stability rehearsal in a quick check")
    source = stage.make_source()
    length = max(8, source.batch(0).inputs.shape[1] // 4)
    settings = stage.short(
        steps,
        schedule=ScheduleSettings(shape="constant", warmup_share=0.0, warmup_steps=5),
        phases=stage.settings.phases.model_copy(update={"short_sequences": None}),
    )
    recorder = Recorder()
    trainer = stage.trainer("stability", hooks=[recorder], source=Short(source, length), settings=settings)
    outcome = trainer.fit()
    losses = recorder.trace.losses
    ceiling = math.log(subject.vocab)
    tail = sorted(losses[-10:])[5] if len(losses) >= 10 else math.nan
    worst = max((loss for loss in losses if math.isfinite(loss)), default=math.nan)
    counts = numbers(
        steps=len(losses),
        first=losses[0] if losses else math.nan,
        last=tail,
        worst=worst,
        rate=max(recorder.trace.rates, default=0.0),
    )
    if outcome.reason == "stopped-by-guard" or any(not math.isfinite(loss) for loss in losses):
        yield Finding(
            "NUMERIC/unstable",
            "stop",
            "stability",
            location="training step",
            numbers={**counts, "kind": "not finite"},
        )
    elif tail > max(ceiling + 0.3, losses[0] + 0.1):
        yield Finding(
            "NUMERIC/unstable",
            "stop",
            "stability",
            location="training step",
            numbers={**counts, "kind": "rising"},
        )
    elif tail > losses[0] - 0.02 and len(losses) >= 30:
        yield Finding(
            "OPT-WIRING/does-not-learn", "warn", "stability", location="training step", numbers=counts
        )
