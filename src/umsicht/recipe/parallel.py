"""How a model and its batches lie on several processes. Not part of a run's identity: a run may go on in another layout."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from umsicht.recipe.base import Section
from umsicht.words import t


class ParallelSettings(Section):
    """Sizes of the device mesh. Their product is the number of processes; `data` takes what the others leave."""

    layout: Literal["sizes", "auto"] = Field(
        "sizes",
        description="sizes: the numbers below. auto: proposed from the plan's estimate of memory, with its reason.",
    )
    data: int | None = Field(
        None,
        ge=1,
        description="Replicas that share each batch; what is left of the processes where not given.",
    )
    shard: int = Field(
        1,
        ge=1,
        description="Processes among which weights, gradients and optimizer state are sharded (FSDP).",
    )
    tensor: int = Field(
        1, ge=1, description="Processes among which each matrix and the vocabulary are split."
    )
    sequence: bool | None = Field(
        None,
        description="tensor: divide the residual stream along the sequence too, which saves memory. "
        "Not given: where the row length divides and nothing drops out.",
    )
    pipeline: int = Field(1, ge=1, description="Groups of layers that work one after the other.")
    schedule: Literal["1f1b", "interleaved"] = Field(
        "1f1b", description="pipeline: order of forward and backward passes."
    )
    stages_per_rank: int = Field(
        2, ge=2, description="interleaved: groups of layers that each process of the pipeline holds."
    )
    timeout_s: float = Field(
        600.0, gt=0, description="A collective that takes longer than this ends the process with an error."
    )
    check_every: int = Field(
        50, ge=0, description="Steps between comparisons of replicated weights across processes; 0: never."
    )

    @model_validator(mode="after")
    def _auto_has_no_sizes(self) -> Self:
        if self.layout == "auto" and (self.data, self.shard, self.tensor, self.pipeline) != (None, 1, 1, 1):
            raise ValueError(t("recipe.rule.auto_layout"))
        return self
