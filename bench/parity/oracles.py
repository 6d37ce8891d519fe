"""Figures that need transformers, trl, peft, gguf, lm-eval and the rating libraries: run inside their environment.

python -m bench.parity.oracles [GROUP …]     one line of JSON a group, as soon as it is there

All groups share one process: importing the oracles costs more than what is measured.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import torch
from safetensors.torch import save_file

from bench.parity.arithmetic import ratings
from bench.parity.harness import against_harness
from bench.parity.subject import subject
from umsicht.finetune.exporting import PROBE, export, probe_ids
from umsicht.finetune.preference import Pair, PairSource, PreferenceObjective
from umsicht.finetune.reference import Reference
from umsicht.finetune.subject import Subject, merged
from umsicht.finetune.supervised import Example, collate, pack
from umsicht.model import LoraConfig, Transformer, build
from umsicht.model.adapter_file import load_adapter, save_adapter
from umsicht.model.gguf_file import KINDS, read_gguf
from umsicht.model.lora import adapters, with_adapters
from umsicht.score import cross_entropy_sum
from umsicht.tokenizer.chat import render

Figures = dict[str, float]

TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Was ist 2+2?  \n"},
    {"role": "assistant", "content": " Vier 🙂."},
    {"role": "user", "content": "¿Y 3+3?"},
    {"role": "assistant", "content": "Seis."},
]


def _theirs(folder: Path, **more: Any) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **more).eval()


def _difference(one: Any, ids: torch.Tensor, other: torch.Tensor) -> float:
    with torch.no_grad():
        logits = one(ids)
    return float((getattr(logits, "logits", logits) - other).abs().max())


def exports(root: Path) -> Figures:
    """Each exportable family, read by transformers from the exported folder: logits, ids, special tokens, chat template."""
    from transformers import AutoTokenizer

    out: Figures = {}
    for family in ("qwen3", "nanochat", "llama", "gpt2"):
        made = subject(root, family)
        export(made, root / family)
        ids = probe_ids(made.tokenizer, 256)
        with torch.no_grad():
            ours = made.model(ids)
        out[f"export {family}: logits"] = _difference(_theirs(root / family), ids, ours)
    tokenizer = AutoTokenizer.from_pretrained(root / "qwen3")
    out["export: probe ids that differ"] = _unequal(
        tokenizer(PROBE)["input_ids"], made.tokenizer.encode(PROBE)
    )
    out["export: special tokens that differ"] = float(
        sum(tokenizer.convert_tokens_to_ids(name) != n for name, n in made.tokenizer.special.items())
    )
    theirs = tokenizer.apply_chat_template(TALK, tokenize=True, return_dict=False)
    out["export: chat ids that differ"] = _unequal(theirs, render(TALK, made.tokenizer).ids)
    return out


def _unequal(one: list[int], other: list[int]) -> float:
    return float(abs(len(one) - len(other)) + sum(a != b for a, b in zip(one, other, strict=False)))


def imports(root: Path) -> Figures:
    """Models made by transformers, brought in."""
    import transformers

    from umsicht.model.import_folder import import_folder

    shape = {
        "vocab_size": 600,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
    }
    gpt2 = transformers.GPT2Config(vocab_size=600, n_embd=64, n_layer=3, n_head=4, n_positions=256)
    configs = {
        "qwen3": transformers.Qwen3Config(**shape, head_dim=16),
        "llama": transformers.LlamaConfig(**shape),
        "gpt2": gpt2,
    }
    ids = torch.randint(0, 600, (2, 200), generator=torch.Generator().manual_seed(0))
    out: Figures = {}
    for name, config in configs.items():
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
            expected = model(ids).logits
        model.save_pretrained(root / f"foreign-{name}")
        out[f"import {name}: logits"] = _difference(import_folder(root / f"foreign-{name}"), ids, expected)
    return out


def gguf_files(root: Path) -> Figures:
    """GGUF files read by transformers: f32 against the model, f16 and q8_0 against the same rounded weights."""
    from transformers import AutoTokenizer

    made = subject(root / "gguf")
    ids = probe_ids(made.tokenizer, 256)
    out: Figures = {}
    for kind in KINDS:
        name = f"model-{kind}.gguf"
        export(made, root / "gguf" / name, f"gguf-{kind}")  # type: ignore[arg-type]  # the formats are spelled so
        with torch.no_grad():
            rounded = read_gguf(root / "gguf" / name, made.model.config)(ids)
            expected = made.model(ids) if kind == "f32" else rounded
            out[f"gguf {kind}: logits moved by rounding"] = float((rounded - made.model(ids)).abs().max())
        theirs = _theirs(root / "gguf", gguf_file=name)
        out[f"gguf {kind}: logits"] = _difference(theirs, ids, expected)
    tokenizer = AutoTokenizer.from_pretrained(root / "gguf", gguf_file="model-f32.gguf")
    out["gguf: probe ids that differ"] = _unequal(tokenizer(PROBE)["input_ids"], made.tokenizer.encode(PROBE))
    return out


def adapter_files(root: Path) -> Figures:
    """Our adapter in PEFT, PEFT's in ours, merged against unmerged."""
    from peft import LoraConfig as PeftConfig
    from peft import PeftModel, get_peft_model

    made = subject(root / "adapter")
    export(made, root / "adapter" / "base")
    ids = probe_ids(made.tokenizer, 256)
    lora = LoraConfig(r=4, alpha=12.0)
    model = build(with_adapters(made.model.config, lora), 0)
    model.load_state_dict({**model.state_dict(), **made.model.state_dict()})
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for layer in adapters(model).values():
            layer.lora_b.copy_(0.05 * torch.randn(layer.lora_b.shape, generator=generator))
        tuned = model.eval()(ids)
    save_adapter(model, root / "adapter" / "ours")
    base = _theirs(root / "adapter" / "base")
    out = {
        "adapter in PEFT: logits": _difference(
            PeftModel.from_pretrained(base, root / "adapter" / "ours"), ids, tuned
        )
    }
    out["adapter merged: logits"] = _difference(merged(model), ids, tuned)
    out["adapter: logits moved from the base"] = float((tuned - made.model(ids)).abs().max())
    config = PeftConfig(
        r=6, lora_alpha=3, use_rslora=True, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM"
    )
    foreign = get_peft_model(_theirs(root / "adapter" / "base"), config)
    with torch.no_grad():
        for name, parameter in foreign.named_parameters():
            if "lora_B" in name:
                parameter.copy_(0.05 * torch.randn(parameter.shape, generator=generator))
        expected = foreign.eval()(ids).logits
    foreign.save_pretrained(root / "adapter" / "theirs")
    back = load_adapter(made.model, root / "adapter" / "theirs")
    out["adapter from PEFT: logits"] = _difference(back, ids, expected)
    return out


def supervised(root: Path) -> Figures:
    """Loss and gradients of a supervised step against TRL's, conversations of unequal length packed on our side."""
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    made = subject(root / "sft")
    export(made, root / "sft" / "base")
    talks = [TALK, TALK[1:3], [TALK[1], {"role": "assistant", "content": "Vier, also 4. " * 6}]]
    rendered = [render(talk, made.tokenizer) for talk in talks]
    examples = [Example(str(n), tuple(r.ids), tuple(r.assistant_mask)) for n, r in enumerate(rendered)]
    model = made.model.train()
    batch = collate(pack(examples, 256), 256, made.tokenizer.pad_id, [0])
    hidden = model.hidden(batch.inputs, document_ids=batch.document_ids)
    total, count = cross_entropy_sum(hidden, model.head_weight, batch.targets)
    loss = total / count
    loss.backward()  # type: ignore[no-untyped-call]  # untyped in torch
    rows = [
        {"input_ids": list(e.ids), "assistant_masks": [int(active) for active in e.mask]} for e in examples
    ]
    trainer = SFTTrainer(
        model=_theirs(root / "sft" / "base"),
        args=SFTConfig(
            output_dir=str(root / "sft" / "trl"),
            per_device_train_batch_size=len(rows),
            report_to=[],
            use_cpu=True,
            max_length=None,
            bf16=False,
            dataset_num_proc=None,
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(root / "sft" / "base"),
    )
    theirs = trainer.model.train()
    inputs = next(iter(trainer.get_train_dataloader()))
    expected = trainer.compute_loss(theirs, inputs)
    expected.backward()
    return {
        "SFT: active targets that differ": float(abs(count - int((inputs["labels"][:, 1:] != -100).sum()))),
        "SFT: loss": abs(float(loss) - float(expected)),
        "SFT: largest gradient difference": _gradients(model, theirs),
    }


def _gradients(model: Transformer, theirs: Any) -> float:
    from umsicht.model.foreign import to_foreign_state

    ours = to_foreign_state(
        model.config, {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    )
    named = dict(theirs.named_parameters())
    assert set(named) == set(ours)
    return max(float((ours[name] - p.grad).abs().max()) for name, p in named.items())


def preference(root: Path) -> Figures:
    """DPO losses of five AdamW steps against TRL's on the same pairs in the same order."""
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import DPOConfig, DPOTrainer

    made = subject(root / "dpo")
    export(made, root / "dpo" / "base")
    pairs = _pairs(20)
    size, steps, rate, beta = 4, 5, 1e-3, 0.2
    batches = [[pairs[step * size + k] for k in range(size)] for step in range(steps)]
    ours = _our_preference_losses(made, batches, rate, beta)
    trainer = DPOTrainer(
        model=_theirs(root / "dpo" / "base"),
        ref_model=_theirs(root / "dpo" / "base"),
        args=DPOConfig(
            output_dir=str(root / "dpo" / "trl"),
            per_device_train_batch_size=size,
            max_steps=steps,
            learning_rate=rate,
            lr_scheduler_type="constant",
            warmup_steps=0,
            max_grad_norm=0.0,
            weight_decay=0.0,
            adam_beta2=0.99,
            beta=beta,
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            max_length=None,
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list([{"prompt": "a", "chosen": "b", "rejected": "c"}] * len(pairs)),
        processing_class=AutoTokenizer.from_pretrained(root / "dpo" / "base"),
    )
    trainer.train_dataset = Dataset.from_list([_as_trl(pair) for pair in pairs])
    trainer._get_train_sampler = lambda *_: torch.utils.data.SequentialSampler(trainer.train_dataset)
    losses: list[float] = []
    compute = trainer.compute_loss

    def watched(*args: Any, **more: Any) -> Any:
        loss = compute(*args, **more)
        losses.append(float(loss[0] if isinstance(loss, tuple) else loss))
        return loss

    trainer.compute_loss = watched
    trainer.train()
    return {
        "DPO: first loss against ln 2": abs(ours[0] - 0.6931471805599453),
        "DPO: largest difference of a step's loss": max(
            abs(a - b) for a, b in zip(ours, losses, strict=True)
        ),
        "DPO: loss moved in five steps": abs(ours[-1] - ours[0]),
    }


def _pairs(n: int) -> list[Pair]:
    generator = torch.Generator().manual_seed(0)

    def answer(prompt: list[int], length: int, name: str) -> Example:
        ids = torch.randint(10, 500, (length,), generator=generator).tolist()
        return Example(name, (*prompt, *ids), (*[False] * len(prompt), *[True] * length))

    pairs = []
    for number in range(n):
        prompt = torch.randint(10, 500, (6 + number % 5,), generator=generator).tolist()
        sides = [answer(prompt, 3 + (number * k) % 7, f"{number}") for k in (1, 2)]
        pairs.append(Pair(f"{number}", *sides))
    return pairs


def _as_trl(pair: Pair) -> dict[str, list[int]]:
    start = pair.chosen.mask.index(True)
    return {
        "prompt_ids": list(pair.chosen.ids[:start]),
        "chosen_ids": list(pair.chosen.ids[start:]),
        "rejected_ids": list(pair.rejected.ids[start:]),
    }


def _our_preference_losses(made: Subject, batches: list[list[Pair]], rate: float, beta: float) -> list[float]:
    model = merged(made.model).train()
    objective = PreferenceObjective(Reference(model), beta)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.0)
    losses = []
    for pairs in batches:
        source = PairSource(pairs, batch_pairs=len(pairs), seed=0, pad_id=made.tokenizer.pad_id)
        batch = source.collated(range(len(pairs)))
        loss = objective(model, batch).objective / objective.units(batch)
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # untyped in torch
        optimizer.step()
    return losses


def fresh_process(root: Path) -> Figures:
    """The exported folder, opened by a new process that has no network and knows nothing of Umsicht."""
    import subprocess

    made = subject(root / "fresh")
    export(made, root / "fresh" / "model")
    ids = probe_ids(made.tokenizer, 256)
    with torch.no_grad():
        save_file({"ids": ids, "logits": made.model(ids)}, root / "fresh" / "expected.safetensors")
    code = (
        "import sys, torch; from safetensors.torch import load_file;"
        "from transformers import AutoModelForCausalLM as M; e = load_file(sys.argv[2]);"
        "m = M.from_pretrained(sys.argv[1], dtype=torch.float32).eval();"
        "assert not any(n.startswith('umsicht') for n in sys.modules);"
        "print(float((m(e['ids']).logits - e['logits']).abs().max()))"
    )
    arguments = [
        sys.executable,
        "-c",
        code,
        str(root / "fresh" / "model"),
        str(root / "fresh" / "expected.safetensors"),
    ]
    done = subprocess.run(
        arguments, check=True, capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"}
    )
    return {"fresh process, offline: logits": float(done.stdout.split()[-1])}


GROUPS: dict[str, Callable[[Path], Figures]] = {
    "exports": exports,
    "imports": imports,
    "gguf": gguf_files,
    "adapters": adapter_files,
    "supervised": supervised,
    "preference": preference,
    "fresh": fresh_process,
    "harness": against_harness,
    "ratings": ratings,
}
LINE = "FIGURES "


def main(names: list[str]) -> None:
    """Print the figures of the named groups (all by default), one line a group; a group that fails says so and the next begins."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    for name in names or list(GROUPS):
        began = time.monotonic()
        out: dict[str, Any] = {"group": name}
        try:
            with tempfile.TemporaryDirectory() as folder:
                out["figures"] = GROUPS[name](Path(folder))
        except Exception:
            out["error"] = traceback.format_exc(limit=-4)
        out["took_s"] = round(time.monotonic() - began, 1)
        print(LINE + json.dumps(out), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
