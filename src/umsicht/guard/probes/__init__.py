"""The probes, one kind a file. `PROBES` are for anybody's parts, `PIPELINE_PROBES` for Umsicht's own runs; `guard.probe` runs them in stage order."""

from __future__ import annotations

from umsicht.guard.probe import Probe
from umsicht.guard.probes import algebra, audit, micro, wiring
from umsicht.guard.probes.alongside import alongside
from umsicht.guard.probes.answers import answers
from umsicht.guard.probes.baseline import baseline, loaded_as_written
from umsicht.guard.probes.documents import document_isolation
from umsicht.guard.probes.dtypes import dtypes
from umsicht.guard.probes.evaluation import evaluation
from umsicht.guard.probes.fed_rows import boundary_tokens, repeated_rows
from umsicht.guard.probes.initial import initialisation
from umsicht.guard.probes.integrity import checkpoint_integrity
from umsicht.guard.probes.ledger import order
from umsicht.guard.probes.mask import active_targets
from umsicht.guard.probes.modes import modes
from umsicht.guard.probes.net import safety_net
from umsicht.guard.probes.new_tokens import new_tokens
from umsicht.guard.probes.norm import loss_norm
from umsicht.guard.probes.overfit import overfit
from umsicht.guard.probes.overlap import overlap
from umsicht.guard.probes.padding_seen import padding_seen
from umsicht.guard.probes.places import places
from umsicht.guard.probes.preference import preference
from umsicht.guard.probes.prefix import causal_prefix
from umsicht.guard.probes.rawtext import raw_text
from umsicht.guard.probes.reach import reach
from umsicht.guard.probes.relative import relative_positions
from umsicht.guard.probes.resume import rehearsal
from umsicht.guard.probes.row_contents import rows
from umsicht.guard.probes.shift import shift
from umsicht.guard.probes.slope import slope
from umsicht.guard.probes.stability import stability
from umsicht.guard.probes.storage import batch_ids, boundaries, token_ids
from umsicht.guard.probes.stream import stream
from umsicht.guard.probes.targets import loader_targets
from umsicht.guard.probes.text import round_trip

_COMMON: tuple[Probe, ...] = (
    Probe("T1", "round-trip", round_trip),
    Probe("T1 raw", "raw-text", raw_text),
    Probe("T2 batches", "token-ids", batch_ids),
    Probe("T5", "target-shift", shift),
    Probe("T6", "active-targets", active_targets),
    Probe("T7", "causal-prefix", causal_prefix),
    Probe("T7 reach", "causal-prefix", reach),
    Probe("T8", "documents", document_isolation),
    Probe("T9", "initialisation", initialisation),
    Probe("T10 norm", "loss-norm", loss_norm),
    Probe("T12", "overfit", overfit, slow=True),
    Probe("T13", "evaluation", evaluation),
    Probe("T25", "evaluation", baseline),
    Probe("T16", "overlap", overlap),
    Probe("T17", "dtypes", dtypes),
)

PROBES: tuple[Probe, ...] = (
    *_COMMON,
    Probe("T3 batches", "boundaries", boundary_tokens),
    Probe("T15 batches", "data-order", repeated_rows),
    Probe("T17 places", "documents", places),
    Probe("T8 padding", "documents", padding_seen),
    Probe("T9 tokens", "initialisation", new_tokens),
    Probe("T6 answers", "active-targets", answers),
    Probe("T24 preference", "loss-norm", preference),
    Probe("T9 stream", "initialisation", stream),
    Probe("T10", "batch-algebra", micro.batch_algebra),
    Probe("T11", "one-step", wiring.one_step),
    Probe("T11 slope", "one-step", slope),
    Probe("T13 modes", "evaluation", modes),
)

PIPELINE_PROBES: tuple[Probe, ...] = (
    *_COMMON,
    Probe("T2", "token-ids", token_ids),
    Probe("T3", "boundaries", boundaries),
    Probe("T4", "rows", rows),
    Probe("T15", "data-order", order),
    Probe("T6 loader", "active-targets", loader_targets),
    Probe("T10", "batch-algebra", algebra.batch_algebra),
    Probe("T11", "one-step", audit.one_step),
    Probe("T11 slope", "one-step", slope),
    Probe("T13 loop", "evaluation", alongside, slow=True),
    Probe("T17 positions", "documents", relative_positions),
    Probe("T25 load", "load", loaded_as_written),
    Probe("T14", "resume", rehearsal, slow=True),
    Probe("T21", "checkpoint", checkpoint_integrity, slow=True),
    Probe("stability", "stability", stability, slow=True),
    Probe("T18 T19 T20", "stability", safety_net, slow=True),
)
