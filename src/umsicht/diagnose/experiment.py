"""Experiments: a child of a run with one change, its recipe and its reason on disk before it is trained, and the tree of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from umsicht.diagnose.groups import flatten
from umsicht.findings.errors import UserError
from umsicht.recipe import Recipe
from umsicht.recipe.load import recipe_from_text
from umsicht.record import atomic_json, atomic_write
from umsicht.record.ids import content_id, short
from umsicht.record.project import Project
from umsicht.record.run import Run
from umsicht.words import t

FOLDER = "experiments"
SCHEMA = 1


@dataclass(frozen=True)
class Experiment:
    """A planned child of a run."""

    name: str
    recipe_path: Path
    parent: str
    parent_id: str
    changes: dict[str, tuple[Any, Any]]
    because: str

    @property
    def confounded(self) -> bool:
        """More than one difference: the result cannot be put down to one of them."""
        return len(self.changes) > 1

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "recipe": self.recipe_path.name,
            "parent": self.parent,
            "parent_id": self.parent_id,
            "changes": {key: list(pair) for key, pair in self.changes.items()},
            "confounded": self.confounded,
            "because": self.because,
        }


def new(parent: Run, overrides: Sequence[str], *, because: str = "", name: str = "") -> Experiment:
    """Write the child's recipe and its note into the project's `experiments/`; nothing is trained yet.

    Raises UserError where nothing changes, a setting is unknown, or more than one changes without a reason.
    """
    recipe = parent.manifest.get("recipe")
    if not isinstance(recipe, Mapping):
        raise UserError(t("diagnose.experiment.no_recipe", run=parent.name), where=str(parent.folder))
    before = recipe_from_text(_yaml(recipe), str(parent.folder))
    after = recipe_from_text(_yaml(recipe), str(parent.folder), list(overrides))
    changes = changed(before, after)
    if not changes:
        raise UserError(
            t("diagnose.experiment.no_change", run=parent.name), fix=t("diagnose.experiment.no_change.fix")
        )
    if len(changes) > 1 and not because.strip():
        raise UserError(
            t("diagnose.experiment.several", n=len(changes), keys=", ".join(changes)),
            why=t("diagnose.experiment.several.why"),
            fix=t("diagnose.experiment.several.fix"),
        )
    folder = project_folder(parent) / FOLDER
    label = name or _name(changes)
    path = folder / f"{label}.yaml"
    if path.exists():
        raise UserError(t("diagnose.experiment.exists", path=path), fix="--name NAME")
    made = Experiment(label, path, parent.name, str(parent.manifest.get("id", "")), changes, because.strip())
    folder.mkdir(parents=True, exist_ok=True)
    head = "".join(f"# {key}: {old} -> {now}\n" for key, (old, now) in changes.items())
    atomic_write(path, f"# {t('diagnose.experiment.head', parent=parent.name)}\n{head}{_yaml(after.plain())}")
    atomic_json(path.with_suffix(".json"), {**made.to_dict(), "recipe_id": recipe_id(after.plain())})
    return made


def changed(before: Recipe, after: Recipe) -> dict[str, tuple[Any, Any]]:
    """Settings in which two recipes differ, by dotted key."""
    one, other = flatten(before.plain()), flatten(after.plain())
    return {
        key: (one.get(key), other.get(key))
        for key in sorted(set(one) | set(other))
        if one.get(key) != other.get(key) and key != "name"
    }


def recipe_id(plain: Mapping[str, Any]) -> str:
    """Identity of a recipe by its content."""
    return content_id(dict(plain))


def lineage_of(project: Path, plain: Mapping[str, Any]) -> dict[str, Any]:
    """What a new run's manifest must say of its parent, where its recipe is that of a planned experiment; else nothing."""
    wanted = recipe_id(plain)
    for note in _notes(project):
        if note.get("recipe_id") == wanted:
            keys = ("parent", "parent_id", "changes", "confounded", "because")
            return {"experiment": note.get("name"), **{key: note.get(key) for key in keys}}
    return {}


def project_folder(run: Run) -> Path:
    """The project a run lies in (`PROJECT/runs/RUN`)."""
    return run.folder.resolve().parent.parent


@dataclass
class Node:
    """A run or a planned experiment in the tree."""

    name: str
    state: str
    changes: dict[str, Any]
    confounded: bool
    because: str
    metric: str
    value: float | None
    delta: float | None = None
    children: list[Node] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        own = {key: value for key, value in self.__dict__.items() if key != "children"}
        return {**own, "children": [child.to_dict() for child in self.children]}


def tree(project: Path, metric: str = "val/all/bpb") -> list[Node]:
    """Roots of the project's tree of experiments, each child with its difference in `metric` to its parent."""
    runs = Project(project).runs()
    nodes: dict[str, Node] = {}
    parents: dict[str, str] = {}
    for run in reversed(runs):
        manifest = run.manifest
        value = run.metrics().last(metric)
        nodes[run.name] = Node(
            run.name,
            str(manifest.get("state", "")),
            dict(manifest.get("changes") or {}),
            bool(manifest.get("confounded")),
            str(manifest.get("because") or ""),
            metric,
            float(value) if isinstance(value, int | float) else None,
        )
        if manifest.get("parent"):
            parents[run.name] = str(manifest["parent"])
    begun = {str(run.manifest.get("experiment")) for run in runs}
    for note in _notes(project):
        name = str(note.get("name"))
        if name not in begun and name not in nodes:
            changes = dict(note.get("changes") or {})
            because = str(note.get("because") or "")
            nodes[name] = Node(name, "planned", changes, bool(note.get("confounded")), because, metric, None)
            parents[name] = str(note.get("parent"))
    return _hang(nodes, parents)


def _hang(nodes: dict[str, Node], parents: Mapping[str, str]) -> list[Node]:
    roots = []
    for name, node in nodes.items():
        parent = nodes.get(parents.get(name, ""))
        if parent is None or parent is node:
            roots.append(node)
            continue
        parent.children.append(node)
        if node.value is not None and parent.value is not None:
            node.delta = node.value - parent.value
    return roots


def _notes(project: Path) -> list[dict[str, Any]]:
    found = []
    for path in sorted((project / FOLDER).glob("*.json")):
        try:
            note = orjson.loads(path.read_bytes())
        except (OSError, orjson.JSONDecodeError):
            continue
        if isinstance(note, dict):
            found.append(note)
    return found


def _name(changes: Mapping[str, tuple[Any, Any]]) -> str:
    """`matrix_rate-0.03-1a2b3c`: readable, and different for different changes."""
    key, (_, value) = next(iter(changes.items()))
    text = f"{key.rpartition('.')[2]}-{value}".lower()
    safe = "".join(c if c.isalnum() or c in "._-" else "-" for c in text)[:40].strip("-.")
    return f"{safe}-{short(content_id({k: list(v) for k, v in changes.items()}))[:6]}"


def _yaml(plain: Mapping[str, Any]) -> str:
    """A recipe as YAML text; JSON-like values only."""
    import io

    from ruamel.yaml import YAML

    stream = io.StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # the package's own annotation is None
    writer.dump(_as_plain(plain), stream)
    return stream.getvalue()


def _as_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _as_plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_plain(inner) for inner in value]
    return value
