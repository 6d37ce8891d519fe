"""How many processes along each coordinate of the mesh, and which combinations are built."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from umsicht.findings import UserError
from umsicht.recipe.parallel import ParallelSettings
from umsicht.words import t


@dataclass(frozen=True)
class Sizes:
    """Extent of the mesh along each coordinate."""

    data: int = 1
    shard: int = 1
    tensor: int = 1
    pipeline: int = 1

    @property
    def world(self) -> int:
        """Processes in all."""
        return self.data * self.shard * self.tensor * self.pipeline

    @property
    def is_split(self) -> bool:
        """True where no process holds the whole model."""
        return self.shard * self.tensor * self.pipeline > 1

    def to_dict(self) -> dict[str, int]:
        """As plain JSON."""
        return asdict(self)

    def __str__(self) -> str:
        named = [f"{name} {size}" for name, size in asdict(self).items() if size > 1]
        return " × ".join(named) or "one process"


def sizes_of(settings: ParallelSettings, world: int) -> Sizes:
    """The mesh that the recipe means for `world` processes. Raises UserError where the numbers do not fit or the combination is not built."""
    inner = settings.shard * settings.tensor * settings.pipeline
    data = settings.data if settings.data is not None else max(1, world // inner)
    sizes = Sizes(data, settings.shard, settings.tensor, settings.pipeline)
    if sizes.world != world:
        raise UserError(
            t("train.mesh_does_not_fit", layout=str(sizes), needs=sizes.world, world=world),
            where="parallel",
            fix=t("train.mesh_does_not_fit_fix", needs=sizes.world),
        )
    if sizes.pipeline > 1 and sizes.shard * sizes.tensor > 1:
        raise UserError(
            t("train.mesh_not_built", layout=str(sizes)),
            where="parallel",
            why=t("train.mesh_not_built_why"),
            fix=t("train.mesh_not_built_fix"),
        )
    return sizes
