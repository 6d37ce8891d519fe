"""Settings of the training stage. Every field has a description: it becomes the reference page."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from umsicht.recipe.base import Section
from umsicht.words import t

Device = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["auto", "float32", "bfloat16", "autocast"]
Compile = Literal["auto", "on", "off"]


class BudgetSettings(Section):
    """How long to train: exactly one of the four. Whatever is given is turned into whole steps once, printed and recorded."""

    steps: int | None = Field(None, gt=0, description="Optimizer steps.")
    tokens: float | None = Field(None, gt=0, description="Training tokens seen, repeats included.")
    epochs: float | None = Field(None, gt=0, description="Passes over the training tokens.")
    minutes: float | None = Field(
        None,
        gt=0,
        description="Wall time of the training loop: steps are set from a measured rate before the first step.",
    )

    @model_validator(mode="after")
    def _one_of_four(self) -> Self:
        if sum(value is not None for value in (self.steps, self.tokens, self.epochs, self.minutes)) != 1:
            raise ValueError(t("recipe.rule.budget"))
        return self


class ScheduleSettings(Section):
    """The learning rate as a closed form of the step: warm-up, then a shape."""

    shape: Literal["wsd", "cosine", "linear", "constant", "inverse_sqrt", "cycles"] = Field(
        "wsd",
        description="wsd: warm-up, stable, decay. The others begin to fall (or stay) right after the warm-up.",
    )
    warmup_share: float = Field(0.02, ge=0, le=1, description="Share of the steps spent in linear warm-up.")
    warmup_steps: int | None = Field(
        None, ge=0, description="Steps of warm-up; replaces warmup_share where given."
    )
    decay_share: float = Field(
        0.4, ge=0, le=1, description="wsd: share of the steps spent in the final decay."
    )
    decay: Literal["linear", "sqrt"] = Field(
        "linear", description="wsd: form of the decay; sqrt is 1 - sqrt(t)."
    )
    floor: float = Field(0.0, ge=0, le=1, description="Factor the decay ends at.")
    cycles: int = Field(3, gt=0, description="cycles: number of cosine cycles.")
    cycle_decay: float = Field(
        1.0, gt=0, le=1, description="cycles: each cycle starts at this factor of the one before."
    )


class OptimizerSettings(Section):
    """Which optimizer moves what, and at which rate. Rates are base rates; the schedule multiplies all of them."""

    kind: Literal["muon", "adamw"] = Field(
        "muon", description="muon: Muon on the matrices, AdamW on the rest. adamw: AdamW on everything."
    )
    matrix_rate: float | None = Field(
        None, gt=0, description="Rate of the weight matrices; derived from kind where not given."
    )
    embedding_rate: float | None = Field(
        None, gt=0, description="Rate of the embedding tables; derived where not given."
    )
    head_rate: float | None = Field(
        None, gt=0, description="Rate of the output head (untied); derived where not given."
    )
    vector_rate: float | None = Field(
        None, gt=0, description="Rate of gains, biases and scalars; derived where not given."
    )
    weight_decay: float = Field(
        0.1, ge=0, description="Decoupled weight decay of the matrices; nothing else decays."
    )
    decay_embeddings: bool = Field(False, description="Let weight decay reach embeddings and head too.")
    beta1: float = Field(0.8, ge=0, lt=1, description="AdamW: decay of the first moment.")
    beta2: float = Field(0.95, ge=0, lt=1, description="AdamW: decay of the second moment.")
    epsilon: float = Field(1e-10, gt=0, description="AdamW: added to the root of the second moment.")
    momentum: float = Field(0.95, ge=0, lt=1, description="Muon: Nesterov momentum.")
    newton_schulz_steps: int = Field(3, ge=1, le=10, description="Muon: iterations of the orthogonalisation.")
    average_share: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the steps at the end whose weights are averaged; the mean is the result. 0 switches it off.",
    )
    clip_norm: float | None = Field(
        1.0, gt=0, description="Global gradient norm is cut to this; null switches clipping off."
    )


class RegularisationSettings(Section):
    """Additions to the loss. Dropout rates stand in the model section, weight decay in the optimizer's."""

    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="Share of the target probability spread over all tokens."
    )
    z_loss: float = Field(
        0.0, ge=0, description="Weight of the squared log-partition; keeps logits from drifting."
    )


class ValidationSettings(Section):
    """Scores on fixed validation text, a domain and language at a time, in bits per byte."""

    count: int = Field(
        12, ge=1, description="Validations in the whole run, evenly spread, the last one at the end."
    )
    every_steps: int | None = Field(
        None, gt=0, description="Steps between validations; replaces count where given."
    )
    slice_bytes: int = Field(
        60_000, gt=0, description="Text scored in each slice; the same documents every time."
    )
    train_bytes: int = Field(
        120_000, ge=0, description="Training text re-scored in evaluation mode; 0 leaves it out."
    )


class EarlyStoppingSettings(Section):
    """Stop when a chosen figure no longer improves."""

    metric: str = Field("val/all/bpb", description="Figure watched, e.g. val/encyclopedia.de/bpb.")
    direction: Literal["down", "up"] = Field("down", description="Which way is better.")
    patience: int = Field(5, gt=0, description="Validations without improvement before the run stops.")
    min_delta: float = Field(0.0, ge=0, description="Smaller improvements do not count.")


class DurableSettings(Section):
    """Copies of checkpoints at a place that outlives this machine."""

    url: str = Field(
        description="Folder, or a URL that fsspec opens (s3://…, gs://…, with its package installed)."
    )
    every_steps: int = Field(
        1, gt=0, description="Steps between copies at least; local checkpoints may come more often."
    )
    keep_last: int = Field(2, ge=1, description="Newest copies kept.")
    retries: int = Field(5, ge=0, description="Further tries where a copy fails, each after twice the wait.")
    first_wait_s: float = Field(1.0, gt=0, description="Wait before the second try.")


class CheckpointSettings(Section):
    """When weights and the whole state of the run are written, and what is kept."""

    every_steps: int | None = Field(None, gt=0, description="Steps between checkpoints.")
    every_tokens: int | None = Field(None, gt=0, description="Tokens between checkpoints.")
    every_minutes: float | None = Field(2.0, gt=0, description="Minutes of wall time between checkpoints.")
    keep_last: int = Field(2, ge=1, description="Newest checkpoints kept.")
    keep_best: dict[str, Literal["down", "up"]] = Field(
        {"val/all/bpb": "down"}, description="Figure and direction: the best checkpoint of each is kept."
    )
    keep_every_steps: int | None = Field(
        None, gt=0, description="Checkpoints at multiples of this step are kept for good."
    )
    asynchronous: bool = Field(True, description="Write in the background while training goes on.")
    stop_when_full: bool = Field(
        False, description="Stop the run where a checkpoint cannot be written; else warn and go on."
    )
    durable: DurableSettings | None = Field(
        None, description="Second tier: copies elsewhere, from which a new machine goes on."
    )
    max_unsaved_steps: int | None = Field(
        None, gt=0, description="durable: stop the run where more steps than this have no copy there."
    )


class PhaseSettings(Section):
    """First phases: on shorter sequences (the same tokens in more rows), and on smaller batches that grow."""

    short_sequences: int | None = Field(
        None, gt=0, description="Sequence length of the first phase; a divisor of model.seq_len."
    )
    short_share: float = Field(0.3, ge=0, le=1, description="Share of the steps trained on short sequences.")
    small_batches: int | None = Field(
        None,
        ge=2,
        description="The first steps read 1/n of global_batch_tokens, then twice that, and so on to the whole; a power of two.",
    )
    small_share: float = Field(
        0.3, gt=0, le=1, description="Share of the steps over which the batch grows to its whole size."
    )

    @model_validator(mode="after")
    def _doubles(self) -> Self:
        if self.small_batches is not None and self.small_batches & (self.small_batches - 1):
            raise ValueError(t("recipe.rule.small_batches"))
        return self


class TrainSettings(Section):
    """The training stage."""

    budget: BudgetSettings = Field(BudgetSettings(tokens=2_000_000), description="How long to train.")
    global_batch_tokens: int = Field(
        2048,
        gt=0,
        description="Tokens in one optimizer step, all micro-batches and ranks; a multiple of model.seq_len.",
    )
    optimizer: OptimizerSettings = Field(OptimizerSettings(), description="Optimizer and rates.")
    schedule: ScheduleSettings = Field(ScheduleSettings(), description="Learning rate over the run.")
    regularisation: RegularisationSettings = Field(
        RegularisationSettings(), description="Label smoothing and z-loss."
    )
    phases: PhaseSettings = Field(
        PhaseSettings(), description="Short sequences and small batches at the start."
    )
    validation: ValidationSettings = Field(ValidationSettings(), description="Scores during training.")
    early_stopping: EarlyStoppingSettings | None = Field(
        None, description="Stop early; null trains to the end."
    )
    checkpoint: CheckpointSettings = Field(
        CheckpointSettings(), description="Checkpoints and their retention."
    )
    device: Device = Field("auto", description="auto takes CUDA, then MPS, then the processor.")
    precision: Precision = Field(
        "auto",
        description="bfloat16: weights in bfloat16 with float32 master copies. auto measures this machine.",
    )
    compile: Compile = Field("auto", description="auto compiles where the run is long enough to pay for it.")
    micro_batch: int | None = Field(
        None, gt=0, description="Rows computed at once; measured once where not given."
    )
    threads: int | None = Field(
        None, gt=0, description="Processor threads; all cores this process may use where not given."
    )
    start_from: str = Field(
        "",
        description="Folder of a checkpoint or imported model whose weights the run starts from (continued pretraining).",
    )
    document_mask: bool = Field(
        False,
        description="Keep attention inside a document where several share a row; slower on a processor.",
    )
    log_every: int = Field(1, gt=0, description="Steps between rows of metrics.jsonl.")
    writers: list[Literal["tensorboard", "wandb", "trackio"]] = Field(
        [], description="Optional copies of the figures."
    )
