"""The training half of the walk: one run folder per thing that is trained, resumed wherever it stopped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from umsicht.evaluate import SampleHook
from umsicht.evaluate.promptset import for_corpus
from umsicht.findings import UserError
from umsicht.model import ModelConfig, Transformer, build, derive, describe
from umsicht.pipeline.after_stop import skipping
from umsicht.pipeline.walk import Walk
from umsicht.plan.flops import model_cost
from umsicht.recipe.parallel import ParallelSettings
from umsicht.record import Artifact, Run, content_id, file_digest, short
from umsicht.tokenizer import Tokenizer
from umsicht.tokens import PackedSource, TokenData
from umsicht.tokens.ready import ReadyMade, open_files
from umsicht.train import Every, Hook, Outcome, Trainer
from umsicht.train.budget import growth_of, planned_tokens, total_steps
from umsicht.train.changes import is_safe
from umsicht.train.machine import choose_device, choose_micro_batch
from umsicht.train.parallel import layout_of
from umsicht.train.proposal import Proposal, propose
from umsicht.train.ranks import ONE, Ranks
from umsicht.train.resident import available_bytes
from umsicht.train.warm import start_from


@dataclass(frozen=True)
class Made:
    """The artifacts that a run rests on."""

    corpus: Artifact
    tokenizer: Artifact
    tokens: Artifact
    baselines: Artifact

    def ids(self) -> dict[str, str]:
        """Ids by kind, as a run's manifest lists them."""
        return {
            "corpus": self.corpus.id,
            "tokenizer": self.tokenizer.id,
            "tokens": self.tokens.id,
            "baselines": self.baselines.id,
        }


@dataclass(frozen=True)
class Material:
    """What training and checks work on, opened once."""

    walk: Walk
    made: Made

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The run's tokenizer."""
        return Tokenizer.load(self.made.tokenizer.path)

    @cached_property
    def data(self) -> TokenData:
        """The run's tokens: those of the corpus, or of ready-made files where the recipe names some."""
        own = TokenData.open(self.made.tokens.path)
        files = self.ready_made()
        if not files["train"]:
            return own
        made_with = ReadyMade(self.tokenizer.n_tokens, self.tokenizer.eos_id)
        ready = open_files(files["train"], files["val"], made_with, self.tokenizer)
        return replace(ready, val=ready.val if files["val"] else own.val)

    def ready_made(self) -> dict[str, list[Path]]:
        """Files of `tokens.ready_made` by split; relative ones start at the recipe's folder."""
        files: dict[str, list[Path]] = {"train": [], "val": []}
        for entry in self.walk.recipe.tokens.ready_made:
            split = "val" if entry.startswith("val=") else "train"
            files[split].append(self.walk.root / entry.removeprefix("val="))
        return files

    def input_ids(self) -> dict[str, str]:
        """Ids of everything the run rests on: artifacts, and ready-made files by content."""
        files = self.ready_made()
        given = [path for path in (*files["train"], *files["val"]) if path.is_file()]
        return {**self.made.ids(), **{f"file:{path.name}": file_digest(path) for path in given}}

    @cached_property
    def config(self) -> ModelConfig:
        """The model's sizes, derived from the dial."""
        settings = self.walk.recipe.model
        return derive(settings, self.tokenizer.n_tokens, seq_len=settings.seq_len)

    def model(self) -> Transformer:
        """A freshly initialised model; the same weights each time."""
        recipe = self.walk.recipe
        if recipe.train.start_from:
            folder = self.walk.root / recipe.train.start_from
            return start_from(folder, self.config, self.tokenizer.digest)
        return build(self.config, recipe.seed)

    def source(self, steps: int | None = None) -> PackedSource:
        """The batches of the run, as long as it is to be (curriculum phases are shares of `steps`)."""
        recipe = self.walk.recipe
        return PackedSource(
            self.data.train,
            seq_len=recipe.model.seq_len,
            batch_tokens=recipe.train.global_batch_tokens,
            seed=recipe.tokens.seed,
            packing=recipe.tokens.packing,
            mix=recipe.tokens.mix,
            total_steps=steps,
            growth=growth_of(recipe.train.phases, steps),
            eos_id=self.data.eos_id,
        )

    def planned_steps(self) -> int | None:
        """Steps of the run where they do not depend on this machine's speed."""
        budget = self.walk.recipe.train.budget
        if budget.minutes is not None:
            return None
        # Phases are shares of the whole: stretched over the steps by which an epoch is counted.
        return total_steps(budget, self.source(1 << 20), lambda: 1.0)

    def describe_model(self) -> list[tuple[str, Any, bool]]:
        """(name, value, derived) of every size, for printing and the record."""
        return [
            (name, value, derived) for name, value, derived in describe(self.config, self.walk.recipe.model)
        ]


def identity(material: Material) -> str:
    """What makes a run this run: model, training, order of data, seed, inputs. Where checkpoints go and what is logged do not."""
    recipe = material.walk.recipe
    return content_id(
        {
            "model": recipe.model.plain(),
            "train": _numbers_only(recipe.train.plain()),
            "tokens": recipe.tokens.plain(),
            "seed": recipe.seed,
            "inputs": material.input_ids(),
        }
    )


def _numbers_only(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings without those that may change on resume."""
    kept: dict[str, Any] = {}
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if is_safe(name):
            continue
        kept[key] = _numbers_only(value, f"{name}.") if isinstance(value, Mapping) else value
    return kept


def run_folder(material: Material) -> Path:
    """Where the run lives: `runs/<recipe>-<id12>`."""
    return material.walk.project.runs_folder / f"{material.walk.recipe.name}-{short(identity(material))}"


def open_run(material: Material, *, extra: Mapping[str, Any] | None = None) -> Run:
    """The run of this recipe and data: the one begun before, or a new one."""
    folder = run_folder(material)
    recipe = material.walk.recipe
    if (folder / "manifest.json").is_file():
        return Run.open(folder)
    steps = material.planned_steps()
    return Run.create(
        folder,
        {
            "id": identity(material),
            "name": recipe.name,
            "recipe": recipe.plain(),
            "inputs": material.input_ids(),
            "seed": recipe.seed,
            "model": {**material.config.to_dict(), "n_parameters": n_parameters(material)},
            "planned_steps": steps,
            "planned_tokens": planned_tokens(material.source(steps), steps) if steps else None,
            "tokenizer_digest": material.tokenizer.digest,
            **(extra or {}),
        },
    )


def n_parameters(material: Material) -> dict[str, int]:
    """Parameters in all, and without the embedding tables and the head."""
    import torch

    with torch.device("meta"):
        model = Transformer(material.config)
    sizes: dict[str, int] = {}
    for _, parameter, role in model.roles():
        sizes[role] = sizes.get(role, 0) + parameter.numel()
    tables = sum(sizes.get(role, 0) for role in ("embedding", "value_embedding", "head"))
    return {"all": sum(sizes.values()), "body": sum(sizes.values()) - tables}


def sample_hook(material: Material, every: Every) -> Hook:
    """Fixed prompts in the corpus's languages, at the frequency of validation."""
    settings = material.walk.recipe.evaluate.samples
    prompts = for_corpus(settings, material.made.corpus.report.get("slices", {}))
    return SampleHook(material.tokenizer, prompts, settings, every=every)


def parallel_of(material: Material, run: Run, ranks: Ranks) -> ParallelSettings:
    """The recipe's layout; where it says `auto`, the one proposed by rank 0 for this number of processes, recorded with its reason."""
    recipe = material.walk.recipe
    if recipe.parallel.layout != "auto" or ranks.world == 1:
        return recipe.parallel.model_copy(update={"layout": "sizes"})
    found = ranks.first(proposed(material, ranks) if ranks.is_first else None)
    if isinstance(found, UserError):
        raise found
    keep = {"timeout_s": recipe.parallel.timeout_s, "check_every": recipe.parallel.check_every}
    settings: ParallelSettings = found.settings.model_copy(update=keep)
    material.walk.progress.note(found.reason)
    run.update_manifest(layout={**settings.plain(), "reason": found.reason})
    return settings


def proposed(material: Material, ranks: Ranks) -> Proposal | UserError:
    """What rank 0 proposes, or why nothing fits: told to all, so that none waits for a layout that does not come."""
    recipe = material.walk.recipe
    device = choose_device(recipe.train.device)
    free = available_bytes(device) or 0
    # Processes of one machine share its memory; each GPU has its own.
    share = free // ranks.local_world if device == "cpu" else free
    rows = max(1, recipe.train.global_batch_tokens // recipe.model.seq_len // ranks.world)
    micro_batch = choose_micro_batch(recipe.train.micro_batch, rows, recipe.model.seq_len, device)
    try:
        return propose(
            material.config,
            recipe.train,
            micro_batch,
            world=ranks.world,
            local_world=ranks.local_world,
            available=share,
        )
    except UserError as error:
        return error


def train(material: Material, run: Run, hooks: Iterable[Hook], ranks: Ranks = ONE) -> Outcome:
    """Train to the end, or go on from the newest whole checkpoint; every one of `ranks` calls this."""
    walk = material.walk
    trainer = Trainer(
        material.model(),
        skipping(material.source(material.planned_steps()), run),
        walk.recipe.train,
        run,
        hooks=tuple(hooks),
        reduction=layout_of(
            parallel_of(material, run, ranks), ranks, choose_device(walk.recipe.train.device)
        ),
        seed=walk.recipe.seed,
        progress=walk.progress,
        flops_per_token=float(model_cost(material.config).flops_training),
    )
    return trainer.fit()
