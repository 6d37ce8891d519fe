"""Writes are whole or absent, whatever happens in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from umsicht.record.files import atomic_folder, atomic_json, atomic_write, sweep_temporaries


def test_a_write_replaces_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.txt"
    atomic_write(path, "one")
    atomic_write(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    atomic_json(path, {"a": 1})
    with pytest.raises(TypeError):
        atomic_json(path, {"a": object()})
    assert path.read_text().strip() == '{\n  "a": 1\n}'
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_appears_only_when_it_is_finished(tmp_path: Path) -> None:
    target = tmp_path / "artifact"
    with atomic_folder(target) as folder:
        (folder / "data").write_text("x")
        assert not target.exists()
    assert (target / "data").read_text() == "x"


def test_an_error_inside_a_folder_leaves_the_previous_one(tmp_path: Path) -> None:
    target = tmp_path / "artifact"
    with atomic_folder(target) as folder:
        (folder / "data").write_text("old")
    with pytest.raises(RuntimeError), atomic_folder(target) as folder:
        (folder / "data").write_text("new")
        raise RuntimeError
    assert (target / "data").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_killed_writer_leaves_no_finished_folder_and_its_leftovers_are_swept(tmp_path: Path) -> None:
    code = (
        "import time, pathlib\n"
        "from umsicht.record.files import atomic_folder\n"
        f"with atomic_folder(pathlib.Path({str(tmp_path / 'artifact')!r})) as f:\n"
        "    (f / 'half').write_text('x'); print('ready', flush=True); time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    assert sweep_temporaries(tmp_path) == []
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not (tmp_path / "artifact").exists()
    assert len(sweep_temporaries(tmp_path)) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_keeps_the_old_file(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        path = disk / "file"
        atomic_write(path, b"old")
        with pytest.raises(OSError, match="No space left") as full:
            atomic_write(path, b"x" * 2_000_000)
        assert full.value.filename == str(path)
        assert path.read_bytes() == b"old"
        assert list(disk.iterdir()) == [path]
    finally:
        subprocess.run(["umount", str(disk)], check=False)
