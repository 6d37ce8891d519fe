"""The evaluation record: scores per slice beside the baselines, the protocol they rest on, and what to think of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch

from umsicht.evaluate import heldout
from umsicht.evaluate.baselines import Encoder, encode_excerpts
from umsicht.evaluate.heldout import Excerpt
from umsicht.evaluate.protocol import Protocol
from umsicht.findings import Finding
from umsicht.model import Transformer
from umsicht.record.artifact import Artifact
from umsicht.record.files import atomic_json
from umsicht.record.manifest import now
from umsicht.record.run import Run
from umsicht.score import TokenNats, document_nats, of_transformer

SCHEMA = 1
MORE = ("context", "facts", "tasks", "harness")
"""What an evaluation may hold besides scores and samples."""
TOO_GOOD = 0.5
"""A model that needs fewer bits than this share of its best baseline is more often leaking than brilliant."""


@dataclass(frozen=True)
class DocumentScore:
    """One held-out excerpt: total nats over `tokens` targets, for `bytes` raw bytes."""

    id: str
    slice: str
    nats: float
    tokens: int
    bytes: int


@dataclass(frozen=True)
class SliceScore:
    """A slice, summed over its excerpts. `low` and `high`: 95 % bootstrap interval of bits per byte over documents."""

    loss: float
    bpb: float
    tokens: int
    bytes: int
    documents: int
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Evaluation:
    """What one checkpoint scored. Written to `evaluations/` of its run and never changed."""

    step: int
    tokens: int
    checkpoint: dict[str, str]
    protocol: Protocol
    slices: dict[str, SliceScore]
    total: SliceScore
    baselines: dict[str, dict[str, float]]
    method: dict[str, Any]
    documents: tuple[DocumentScore, ...]
    samples: dict[str, float] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    took_s: float = 0.0
    created: str = ""
    more: dict[str, Any] = field(default_factory=dict)
    """Deeper looks by name, see `MORE`."""

    def beats(self, baseline: str) -> tuple[str, ...]:
        """Slices on which the model needs fewer bits per byte than `xz`, `xz_context` or `ngram5`."""
        return tuple(
            n for n, s in self.slices.items() if s.bpb < self.baselines.get(n, {}).get(baseline, -math.inf)
        )

    def with_findings(self, more: Sequence[Finding]) -> Evaluation:
        """The same evaluation with further findings behind its own."""
        return replace(self, findings=(*self.findings, *more))

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.more,
            "schema": SCHEMA,
            "kind": "evaluation",
            "created": self.created,
            "took_s": self.took_s,
            "step": self.step,
            "tokens": self.tokens,
            "checkpoint": self.checkpoint,
            "protocol": self.protocol.to_dict(),
            "slices": {name: vars(score) for name, score in self.slices.items()},
            "all": vars(self.total),
            "baselines": self.baselines,
            "method": self.method,
            "beats": {name: list(self.beats(name)) for name in ("xz", "xz_context", "ngram5")},
            "samples": self.samples,
            "findings": [finding.to_dict() for finding in self.findings],
            "documents": [[d.id, d.slice, d.nats, d.tokens, d.bytes] for d in self.documents],
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Evaluation:
        return cls(
            step=int(plain["step"]),
            tokens=int(plain["tokens"]),
            checkpoint=dict(plain["checkpoint"]),
            protocol=Protocol.from_dict(plain["protocol"]),
            slices={name: SliceScore(**score) for name, score in plain["slices"].items()},
            total=SliceScore(**plain["all"]),
            baselines=plain["baselines"],
            method=plain["method"],
            documents=tuple(DocumentScore(*row) for row in plain["documents"]),
            samples=plain.get("samples", {}),
            findings=tuple(Finding.from_dict(f) for f in plain.get("findings", ())),
            took_s=float(plain.get("took_s", 0.0)),
            created=str(plain.get("created", "")),
            more={name: plain[name] for name in MORE if name in plain},
        )

    def save(self, run: Run) -> Path:
        """Write it as `evaluations/step-<step>-<protocol>.json`; the same checkpoint and protocol replace each other."""
        return atomic_json(
            run.evaluations / f"step-{self.step:08d}-{self.protocol.digest[:8]}.json", self.to_dict()
        )


def load_all(run: Run) -> list[Evaluation]:
    """Every evaluation of a run, in the order of steps; files that are no evaluation are passed over."""
    found = []
    for path in sorted(run.evaluations.glob("step-*.json")):
        plain = orjson.loads(path.read_bytes())
        if plain.get("kind") == "evaluation" and plain.get("schema") == SCHEMA:
            found.append(Evaluation.from_dict(plain))
    return sorted(found, key=lambda e: (e.step, e.created))


def evaluate_model(
    model: Transformer,
    tokenizer: Encoder,
    baselines: Artifact,
    *,
    window: int,
    stride: int | None = None,
    step: int = 0,
    tokens: int = 0,
    checkpoint: dict[str, str] | None = None,
    device: torch.device | str = "cpu",
    nats_of: TokenNats | None = None,
    samples: dict[str, float] | None = None,
) -> Evaluation:
    """Score `model` on the held-out excerpts of a baselines artifact. Puts it into eval mode and back.

    `nats_of` replaces the way our own transformer is asked (see `umsicht.score.of_logits` for foreign models).
    """
    began = time.monotonic()
    excerpts = heldout.load(baselines.path)
    report = baselines.report
    protocol = Protocol(str(report["heldout"]), tokenizer.eos_id, window, stride or max(1, window // 2))
    was_training = model.training
    model.eval()
    try:
        ask = nats_of or of_transformer(model)
        documents, repeat = _score(ask, excerpts, tokenizer, protocol, device)
    finally:
        model.train(was_training)
    figures = {
        name: {"xz": s["xz"], "xz_context": s["xz_context"], "ngram5": s["ngram"]}
        for name, s in report["slices"].items()
    }
    slices = {name: _sum([d for d in documents if d.slice == name]) for name in report["slices"]}
    total = _sum(documents)
    return Evaluation(
        step=step,
        tokens=tokens,
        checkpoint=checkpoint or {},
        protocol=protocol,
        slices=slices,
        total=total,
        baselines=figures,
        method=report["method"],
        documents=tuple(documents),
        samples=samples or {},
        findings=tuple(judge(slices, figures, repeat, step)),
        took_s=time.monotonic() - began,
        created=now(),
    )


def _score(
    ask: TokenNats,
    excerpts: Sequence[Excerpt],
    tokenizer: Encoder,
    protocol: Protocol,
    device: torch.device | str,
) -> tuple[list[DocumentScore], float]:
    """The scores, and by how many nats a token the first excerpts differ when they are scored once more, alone."""
    ids = encode_excerpts(excerpts, tokenizer)

    def run(some: Sequence[Any]) -> list[float]:
        scored = document_nats(
            ask,
            some,
            prefix=protocol.prefix_token,
            window=protocol.window,
            stride=protocol.stride,
            device=device,
        )
        return [float(nats.sum()) for nats in scored]

    nats = run(ids)
    again = [run([document])[0] for document in ids[:2]]
    apart = [abs(a - b) / max(1, len(d)) for a, b, d in zip(again, nats, ids, strict=False)]
    repeat = math.inf if any(math.isnan(d) for d in apart) else max(apart, default=0.0)
    rows = zip(excerpts, nats, ids, strict=True)
    return [DocumentScore(e.id, e.slice, n, len(i), len(e.data)) for e, n, i in rows], repeat


def _sum(documents: Sequence[DocumentScore]) -> SliceScore:
    nats = math.fsum(d.nats for d in documents)
    tokens, size = sum(d.tokens for d in documents), sum(d.bytes for d in documents)
    low, high = interval(documents, lambda n, b: n / math.log(2) / b)
    return SliceScore(
        loss=nats / max(1, tokens),
        bpb=nats / math.log(2) / max(1, size),
        tokens=tokens,
        bytes=size,
        documents=len(documents),
        low=low,
        high=high,
    )


def interval(
    documents: Sequence[DocumentScore],
    figure: Callable[[Any, Any], Any],
    *,
    draws: int = 1_000,
    seed: int = 0,
) -> tuple[float | None, float | None]:
    """95 % percentile bootstrap over documents of a figure of (total nats, total bytes); None below 5 documents."""
    if len(documents) < 5:
        return None, None
    nats = np.array([d.nats for d in documents])
    size = np.array([d.bytes for d in documents])
    pick = np.random.default_rng(seed).integers(0, len(documents), (draws, len(documents)))
    figures = figure(nats[pick].sum(1), size[pick].sum(1))
    if not np.isfinite(figures).all():
        return None, None
    low, high = np.quantile(figures, [0.025, 0.975])
    return float(low), float(high)


def judge(
    slices: dict[str, SliceScore], baselines: dict[str, dict[str, float]], repeat: float, step: int
) -> list[Finding]:
    """Findings about the scores themselves: not finite, not repeatable, worse than a compressor, too good to be true."""
    broken = [name for name, s in slices.items() if not math.isfinite(s.bpb)]
    if broken:
        return [
            _finding(
                "nonfinite", "stop", broken[0], {"slices": len(broken), "slice": broken[0], "step": step}
            )
        ]
    findings = []
    if repeat > 1e-4:
        findings.append(_finding("not-repeatable", "stop", "", {"difference": repeat, "step": step}))
    below = {name: figures for name, figures in baselines.items() if slices[name].bpb >= figures["xz"]}
    if below:
        worst = max(below, key=lambda name: slices[name].bpb / below[name]["xz"])
        numbers = {
            "slices": len(below),
            "of": len(slices),
            "slice": worst,
            "bpb": slices[worst].bpb,
            "xz": below[worst]["xz"],
            "step": step,
        }
        findings.append(_finding("worse-than-xz", "warn", worst, numbers))
    for name, figures in baselines.items():
        best = min(figures.values())
        if slices[name].bpb < TOO_GOOD * best:
            numbers = {"slice": name, "bpb": slices[name].bpb, "baseline": best, "step": step}
            findings.append(_finding("too-good", "warn", name, numbers))
    return findings


def _finding(slug: str, grade: Any, where: str, numbers: dict[str, Any]) -> Finding:
    return Finding(f"EVAL-VALIDITY/{slug}", grade, "evaluate", where, numbers)
