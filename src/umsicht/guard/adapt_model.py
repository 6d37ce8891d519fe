"""One face for every causal language model: token ids in, logits out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from umsicht.findings import UserError
from umsicht.words import t

_IDS = ("input_ids", "idx", "ids", "tokens", "x", "inputs")
_TARGETS = ("targets", "labels", "target", "y")
_HEADS = (
    "lm_head",
    "head",
    "output",
    "unembed",
    "embed_out",
    "decoder",
    "proj_out",
    "logits",
    "to_logits",
    "out_proj",
    "fc_out",
)
_CONTEXT_NAMES = {
    "document_ids": ("document_ids", "doc_ids", "seq_ids", "segment_ids", "sequence_ids"),
    "position_ids": ("position_ids", "positions", "input_pos", "pos"),
    "attention_mask": ("attention_mask", "mask", "attn_mask", "padding_mask"),
}


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of the parameters of a callable, `self` left out; empty where Python cannot tell."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ()
    return tuple(name for name in signature.parameters if name != "self")


def logits_in(output: Any, rows: int, seq: int) -> torch.Tensor | None:
    """The logits `[rows, seq, vocab]` in whatever a model returned, or None."""
    if isinstance(output, torch.Tensor):
        if output.dim() == 3 and output.shape[0] == rows:
            return output
        if output.dim() == 2 and output.shape[0] == rows * seq:
            return output.view(rows, seq, -1)
        return None
    found = getattr(output, "logits", None)
    if found is None and isinstance(output, Mapping):
        found = output.get("logits")
    if found is not None:
        return logits_in(found, rows, seq)
    if isinstance(output, tuple | list) and output:
        chunks = [
            part
            for part in output
            if isinstance(part, torch.Tensor) and part.dim() == 3 and part.shape[0] == rows
        ]
        if isinstance(output, list) and chunks and sum(part.shape[1] for part in chunks) == seq:
            return torch.cat(chunks, dim=1)
        for part in output:
            inner = logits_in(part, rows, seq) if isinstance(part, torch.Tensor) else None
            if inner is not None:
                return inner
    return None


def loss_in(output: Any) -> torch.Tensor | None:
    """The scalar loss in whatever a model or a loss function returned, or None."""
    if isinstance(output, torch.Tensor):
        return output if output.dim() == 0 or output.numel() == 1 else None
    found = getattr(output, "loss", None)
    if found is None and isinstance(output, Mapping):
        found = output.get("loss")
    if isinstance(found, torch.Tensor):
        return loss_in(found)
    if isinstance(output, tuple | list):
        for part in output:
            if isinstance(part, torch.Tensor) and (part.dim() == 0 or part.numel() == 1):
                return part
    return None


class ModelView:
    """A model as the probes see it.

    `logits(ids)` takes `[rows, seq]` and gives `[rows, seq, vocab]`. `module` is the underlying `nn.Module`, None for a bare
    callable. Raises `UserError` naming `model=` where no logits come out.
    """

    def __init__(self, model: Any) -> None:
        if not callable(model):
            raise UserError(
                t("guard.api.model_call.what"),
                "model=",
                t("guard.api.model_call.why"),
                t("guard.api.model_call.fix"),
            )
        self.model = model
        unwrapped = model
        while isinstance(unwrapped, nn.Module):
            inner = getattr(unwrapped, "_orig_mod", None)
            if inner is None and type(unwrapped).__name__ in {
                "DistributedDataParallel",
                "DataParallel",
                "_FabricModule",
            }:
                inner = getattr(unwrapped, "module", None)
            if not isinstance(inner, nn.Module):
                break
            unwrapped = inner
        self.module: nn.Module | None = unwrapped if isinstance(unwrapped, nn.Module) else None
        function = self.module.forward if self.module is not None else model
        self.names = parameter_names(function)
        self.target_name = next((name for name in _TARGETS if name in self.names), None)
        self._needs_targets = False

    @property
    def device(self) -> torch.device:
        """Where the parameters are; cpu for a bare callable."""
        parameter = next(self.module.parameters(), None) if self.module is not None else None
        return parameter.device if parameter is not None else torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of most parameters; float32 for a bare callable."""
        if self.module is None:
            return torch.float32
        counts: dict[torch.dtype, int] = {}
        for parameter in self.module.parameters():
            counts[parameter.dtype] = counts.get(parameter.dtype, 0) + parameter.numel()
        return max(counts, key=lambda key: counts[key]) if counts else torch.float32

    def accepts(self, role: str) -> str | None:
        """The name under which the model takes `document_ids`, `position_ids` or `attention_mask`, or None."""
        return next((name for name in _CONTEXT_NAMES[role] if name in self.names), None)

    def _arguments(
        self, ids: torch.Tensor, context: Mapping[str, torch.Tensor | None]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        keywords: dict[str, Any] = {}
        for role, value in context.items():
            name = self.accepts(role)
            if value is not None and name is not None and name != "input_pos":
                keywords[name] = value.to(ids.device)
        if "use_cache" in self.names:
            keywords["use_cache"] = False
        if "input_ids" in self.names and self.names[0] != "input_ids":
            return (), {"input_ids": ids, **keywords}
        return (ids,), keywords

    def raw(self, ids: torch.Tensor, **context: torch.Tensor | None) -> Any:
        """The untouched output of the model on `ids`."""
        positional, keywords = self._arguments(ids.to(self.device), context)
        if self._needs_targets and self.target_name:
            keywords[self.target_name] = ids.to(self.device)
        return self.model(*positional, **keywords)

    def logits(self, ids: torch.Tensor, **context: torch.Tensor | None) -> torch.Tensor:
        """Logits `[rows, seq, vocab]` for `ids` `[rows, seq]`, on the path that the model takes in its current mode."""
        rows, seq = ids.shape
        found = logits_in(self.raw(ids, **context), rows, seq)
        if (found is None or found.shape[1] != seq) and self.target_name and not self._needs_targets:
            self._needs_targets = True
            found = logits_in(self.raw(ids, **context), rows, seq)
        if found is None or found.shape[:2] != ids.shape:
            shape = (
                t("guard.api.logits.no_shape")
                if found is None
                else t("guard.api.logits.shape", shape=list(found.shape))
            )
            raise UserError(
                t("guard.api.logits.what", shape=shape, ids=[rows, seq]),
                "model=",
                t("guard.api.logits.why"),
                t("guard.api.logits.fix"),
            )
        return found

    @property
    def input_embedding(self) -> nn.Embedding | None:
        """The token embedding: the one the model names, else the one with the most rows."""
        if self.module is None:
            return None
        getter = getattr(self.module, "get_input_embeddings", None)
        if callable(getter):
            try:
                found = getter()
            except (NotImplementedError, AttributeError):
                found = None
            if isinstance(found, nn.Embedding):
                return found
        tables = [module for module in self.module.modules() if isinstance(module, nn.Embedding)]
        return max(tables, key=lambda table: table.num_embeddings) if tables else None

    def head(self, vocab: int | None = None) -> nn.Module | None:
        """The module that makes the logits, where there is one."""
        if self.module is None:
            return None
        getter = getattr(self.module, "get_output_embeddings", None)
        if callable(getter):
            try:
                found = getter()
            except (NotImplementedError, AttributeError):
                found = None
            if isinstance(found, nn.Module):
                return found
        by_name = [
            module for name, module in self.module.named_modules() if name.rsplit(".", 1)[-1] in _HEADS
        ]
        candidates: list[nn.Module] = [*reversed(by_name), *reversed(list(self.module.modules()))]
        for module in candidates:
            weight = getattr(module, "weight", None)
            if isinstance(module, nn.Embedding) or not isinstance(weight, torch.Tensor) or weight.dim() != 2:
                continue
            if vocab is None or weight.shape[0] == vocab:
                return module
        return None

    @property
    def head_weight(self) -> torch.Tensor | None:
        """The output matrix `[vocab, width]`: the head's, the one the model names, or the embedding's where the two are tied."""
        table = self.input_embedding
        head = self.head(table.num_embeddings if table is not None else None)
        weight = getattr(head, "weight", None)
        if weight is None and self.module is not None:
            weight = getattr(self.module, "head_weight", None)
        if weight is None and table is not None:
            weight = table.weight
        return weight if isinstance(weight, torch.Tensor) else None

    @property
    def embedding_rows(self) -> int | None:
        """Rows of the input embedding, or None where the probe cannot see it."""
        table = self.input_embedding
        return table.num_embeddings if table is not None else None

    def drops(self) -> bool:
        """True where any dropout is switched on in training."""
        if self.module is None:
            return False
        if any(
            getattr(module, "p", 0) for module in self.module.modules() if "Dropout" in type(module).__name__
        ):
            return True
        for module in self.module.modules():
            for name, value in vars(module).items():
                if "dropout" in name.lower() and isinstance(value, float) and value > 0:
                    return True
        return False

    @contextmanager
    def mode(self, training: bool) -> Iterator[None]:
        """Train or eval mode inside the block; every module gets its own mode back afterwards."""
        if self.module is None:
            yield
            return
        before = {module: module.training for module in self.module.modules()}
        self.module.train(training)
        try:
            yield
        finally:
            for module, was in before.items():
                module.training = was


def random_ids(view: ModelView, rows: int, seq: int, vocab: int, seed: int) -> torch.Tensor:
    """Uniform ids in `[0, vocab)`, reproducible."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocab, (rows, seq), generator=generator).to(view.device)
