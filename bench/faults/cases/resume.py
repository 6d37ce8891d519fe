"""Faults of save, load and resume (RE)."""

from __future__ import annotations

from typing import Any

from bench.faults.case import Plant, case
from bench.faults.plant import rewrite


def _restore(old: str, new: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.train.state import Carried

        rewrite(Carried, "restore", old, new)

    return plant


_LOAD = "self.optimizer.load_state_tensors(loaded.optimizer)"
case(
    "RE2",
    "RESUME-STATE",
    "resume",
    {"code": _restore(_LOAD, "pass")},
    {
        "code": _restore(
            _LOAD,
            "self.optimizer.load_state_tensors({k: (v * 0 if k.startswith('norm.') and v.ndim else v) for k, v in loaded.optimizer.items()})",
        )
    },
)
case(
    "RE3",
    "RESUME-STATE",
    "resume",
    {
        "code": _restore(
            _LOAD,
            "self.optimizer.load_state_tensors({k: (v.flip(0) if v.ndim else v) for k, v in loaded.optimizer.items()})",
        )
    },
    {
        "code": _restore(
            _LOAD,
            "self.optimizer.load_state_tensors({k: (v.to(torch.bfloat16).float() if k.endswith('momentum') else v) for k, v in loaded.optimizer.items()})",
        )
    },
)
_PLACE = 'self.position = Position(loaded.step, loaded.tokens, float(loaded.state["seconds"]))'


def _micro(new: str) -> Plant:
    """Data after a resume come from another step."""

    def plant(p: Any) -> None:
        from umsicht.train import Trainer

        rewrite(
            Trainer,
            "_resume",
            "self.saver.resumed_at(loaded.step, loaded.tokens)",
            f"self.saver.resumed_at(loaded.step, loaded.tokens)\n        old = self.source.micro_batches\n        base = loaded.step\n        self.source.micro_batches = lambda step, *a, **k: old({new}, *a, **k)",
        )

    return plant


case(
    "RE1",
    "RESUME-STATE OPT-WIRING",
    "resume",
    {"code": lambda p: _rate_after("step - base")},
    {"code": lambda p: _rate_after("step - 1 if step == base else step")},
)


def _rate_after(new: str) -> None:
    from umsicht.train import Trainer

    rewrite(
        Trainer,
        "_resume",
        "self.saver.resumed_at(loaded.step, loaded.tokens)",
        f"self.saver.resumed_at(loaded.step, loaded.tokens)\n        base, real = loaded.step, self.schedule\n        class Again:\n            def factor(self, step): return real.factor({new})\n        self.schedule = Again()",
    )


case(
    "RE4",
    "RESUME-STATE",
    "resume",
    {"code": _micro("step - base")},
    {"code": _micro("step - base if step == base else step")},
)
case(
    "RE6",
    "RESUME-STATE",
    "resume",
    {"code": _micro("step - 1")},
    {"code": _micro("step + 1 if step == base else step")},
)
case(
    "RE5",
    "RESUME-STATE",
    "resume",
    {"code": _micro("(step * 7 + 3)")},
    {"code": _micro("step if step % 2 else step + 2")},
)


def _early(p: Any) -> None:
    from umsicht.train.state import Carried

    real = Carried.snapshot
    last: dict[str, Any] = {}

    def snapshot(self: Any, row: Any) -> Any:
        taken = real(self, row)
        old, last["model"] = last.get("model"), {k: v.clone() for k, v in taken.model.items()}
        if old is not None:
            taken.model = old
        return taken

    Carried.snapshot = snapshot


def _rounded(p: Any) -> None:
    from umsicht.train.state import Carried

    real = Carried.snapshot

    def snapshot(self: Any, row: Any) -> Any:
        taken = real(self, row)
        taken.model = {k: (v.bfloat16().float() if k == "norm.weight" else v) for k, v in taken.model.items()}
        return taken

    Carried.snapshot = snapshot


case("RE7", "RESUME-STATE LOAD-MAP", "resume|checkpoint", {"code": _early}, {"code": _rounded})


def _in_place(p: Any) -> None:
    import contextlib

    import umsicht.train.checkpoints as module

    @contextlib.contextmanager
    def straight(path: Any) -> Any:
        path.mkdir(parents=True, exist_ok=True)
        yield path

    module.atomic_folder = straight
    rewrite(
        module,
        "latest",
        "return find_latest(run)[0]",
        "return (listed(run) or [None])[-1] and max((c for c in run.checkpoints.iterdir()), key=lambda c: c.name)",
    )


def _no_digest(p: Any) -> None:
    import umsicht.train.checkpoints as module

    module.verify = lambda path: []


case("RE8", "CHECKPOINT LOAD-MAP", "checkpoint", {"code": _in_place}, {"code": _no_digest})


def _lenient(p: Any) -> None:
    import umsicht.train.checkpoints as module

    def restore(model: Any, tensors: Any, where: str = "") -> None:
        own = model.state_dict()
        model.load_state_dict(
            {k: v for k, v in tensors.items() if k in own and own[k].shape == v.shape}, strict=False
        )

    module.restore_model = restore


def _lenient_extra(p: Any) -> None:
    import umsicht.train.checkpoints as module

    real = module.restore_model

    def restore(model: Any, tensors: Any, where: str = "") -> None:
        real(model, {k: v for k, v in tensors.items() if k in model.state_dict()}, where)

    module.restore_model = restore


case("RE10", "LOAD-MAP", "checkpoint", {"code": _lenient}, {"code": _lenient_extra})
