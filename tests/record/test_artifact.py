"""An artifact is named by what it was made from, made once, and never half there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from umsicht.record import Store
from umsicht.record.manifest import verify
from umsicht.record.project import Project, collect_garbage, garbage, lineage
from umsicht.record.run import Run


def build(store: Store, settings: dict[str, object], calls: list[int], inputs: dict[str, str] | None = None):  # type: ignore[no-untyped-def]  # a helper of this file
    def make(folder: Path) -> dict[str, object]:
        calls.append(1)
        (folder / "data.txt").write_text(str(settings))
        return {"documents": 3}

    return store.build(
        "corpus",
        "small",
        stage_version=1,
        settings=settings,
        inputs=inputs or {"source:a": "1" * 64},
        make=make,
    )


def test_an_unchanged_stage_is_not_run_twice(tmp_path: Path) -> None:
    calls: list[int] = []
    store = Store(tmp_path)
    first = build(store, {"a": 1}, calls)
    second = build(store, {"a": 1}, calls)
    assert (first.id, first.path, len(calls)) == (second.id, second.path, 1)
    assert second.report == {"documents": 3}


@pytest.mark.parametrize("change", ["settings", "inputs", "version"])
def test_any_change_of_what_it_is_made_from_gives_another_id(tmp_path: Path, change: str) -> None:
    store = Store(tmp_path)
    same = {"stage_version": 1, "settings": {"a": 1}, "inputs": {"x": "y"}}
    other = {
        "settings": {"settings": {"a": 2}},
        "inputs": {"inputs": {"x": "z"}},
        "version": {"stage_version": 2},
    }[change]
    assert store.identity("corpus", **same) != store.identity("corpus", **{**same, **other})  # type: ignore[arg-type]  # keyword sets


def test_a_stage_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def make(folder: Path) -> dict[str, object]:
        (folder / "half").write_text("x")
        raise RuntimeError("stage failed")

    with pytest.raises(RuntimeError):
        Store(tmp_path).build("corpus", "small", stage_version=1, settings={}, inputs={}, make=make)
    assert list((tmp_path / "corpus").iterdir()) == []


def test_an_artifact_without_a_manifest_is_made_again(tmp_path: Path) -> None:
    calls: list[int] = []
    store = Store(tmp_path)
    made = build(store, {"a": 1}, calls)
    (made.path / "manifest.json").unlink()
    again = build(store, {"a": 1}, calls)
    assert len(calls) == 2
    assert again.path == made.path
    assert verify(again.path) == []


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_verify_names_every_kind_of_damage(tmp_path: Path, damage: str) -> None:
    made = build(Store(tmp_path), {"a": 1}, [])
    path = made.file("data.txt")
    stat = path.stat()
    if damage == "flip":
        data = bytearray(path.read_bytes())
        data[0] ^= 1
        path.write_bytes(data)
        import os

        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    elif damage == "truncate":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.unlink()
    found = verify(made.path)
    assert [(one.path, one.problem) for one in found] == [
        ("data.txt", {"flip": "digest", "truncate": "size", "remove": "missing"}[damage])
    ]


def test_garbage_is_what_no_run_descends_from(tmp_path: Path) -> None:
    project = Project(tmp_path)
    kept = build(project.store, {"a": 1}, [])
    child = build(project.store, {"a": 2}, [], inputs={"corpus": kept.id})
    unused = build(project.store, {"a": 3}, [])
    Run.create(project.runs_folder / "r", {"name": "r", "inputs": {"tokens": child.id}})
    found = list(garbage(project))
    assert [item.path for item in found] == [unused.path]
    collect_garbage(project, found)
    assert {artifact.id for artifact in project.store.artifacts()} == {kept.id, child.id}


def test_lineage_goes_back_to_the_sources_and_shows_what_is_missing(tmp_path: Path) -> None:
    project = Project(tmp_path)
    corpus = build(project.store, {"a": 1}, [])
    run = Run.create(
        project.runs_folder / "r", {"name": "r", "inputs": {"corpus": corpus.id, "tokenizer": "f" * 64}}
    )
    node = lineage(run.manifest, project.store, "r")
    found, missing = node.parents
    assert (found.kind, found.parents[0].kind, found.parents[0].missing) == ("corpus", "source", False)
    assert (missing.kind, missing.missing) == ("tokenizer", True)


def test_two_processes_that_want_one_artifact_make_it_once(tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib\n"
        "from umsicht.record.artifact import Store\n"
        "def make(folder):\n"
        "    time.sleep(0.5)\n"
        "    (folder / 'data').write_text(sys.argv[2])\n"
        "    with open(sys.argv[3], 'a') as log: log.write(sys.argv[2])\n"
        "    return {}\n"
        "print(Store(sys.argv[1]).build('kind', 'x', stage_version=1, settings={}, inputs={}, make=make).file('data').read_text())\n"
    )
    calls = tmp_path / "calls"
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "store"), name, str(calls)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    said = {process.communicate()[0].strip() for process in both}
    assert said == {calls.read_text()}
    assert not list((tmp_path / "store" / "kind").glob(".*.lock"))
