"""Folders that cannot be written are refused before anything is computed, with their path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from umsicht.findings import UserError
from umsicht.record.lock import FolderLock
from umsicht.survive.supervisor import only_writer
from umsicht.survive.writable import refuse_unwritable


def test_a_good_folder_passes_and_nothing_is_left_in_it(tmp_path: Path) -> None:
    refuse_unwritable(tmp_path / "not" / "there" / "yet")
    assert not list(tmp_path.iterdir())


def test_a_temporary_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "gone"))
    with pytest.raises(UserError) as error:
        refuse_unwritable(tmp_path)
    assert str(tmp_path / "gone") in error.value.where and "TMPDIR" in error.value.fix


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder in which nobody can write: /proc")
def test_a_project_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        refuse_unwritable(Path("/proc/self/project"))
    assert "/proc" in error.value.where and error.value.why


def test_one_writer_a_run_unless_its_launcher_holds_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FolderLock(tmp_path / "lock"):
        with pytest.raises(UserError) as error, only_writer(tmp_path):
            pass
        assert str(os.getpid()) in error.value.what
        monkeypatch.setenv("UMSICHT_RUN", str(tmp_path))
        with only_writer(tmp_path):
            pass
    monkeypatch.delenv("UMSICHT_RUN")
    with only_writer(tmp_path):
        assert FolderLock(tmp_path / "lock").path.read_text()
