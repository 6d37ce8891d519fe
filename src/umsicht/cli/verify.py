"""`umsicht verify`: read every file again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from umsicht.cli.output import print_json
from umsicht.cli.projects import existing, project_of
from umsicht.record.manifest import MANIFEST, read_manifest
from umsicht.record.manifest import verify as verify_folder
from umsicht.words import t


def verify(folder: Path = Path(), *, json: bool = False) -> int:
    """Read every file of artifacts and checkpoints again and compare it with its manifest.

    Parameters
    ----------
    folder
        A project, a run, or one artifact or checkpoint.
    json
        Print JSON.
    """
    results = []
    for target in _targets(existing(folder)):
        damages = verify_folder(target)
        results.append((target, damages))
        if json:
            continue
        if not damages:
            print(t("cli.verify.whole", what=target))
        for damage in damages:
            print(t("cli.verify.damaged", what=target, path=damage.path, problem=damage.problem))
    if json:
        print_json([{"folder": str(at), "damages": [vars(one) for one in found]} for at, found in results])
    elif not results:
        print(t("cli.verify.none", folder=folder))
    return 1 if any(damages for _, damages in results) else 0


def _targets(folder: Path) -> Iterator[Path]:
    """Folders whose manifest lists files; the folder itself, or all below its project."""
    own = read_manifest(folder)
    if own is not None and "files" in own:
        yield folder
        return
    root = folder if own is not None else project_of(folder).folder
    for path in sorted(root.rglob(MANIFEST)):
        manifest = read_manifest(path.parent)
        if manifest is not None and "files" in manifest and ".tmp-" not in str(path):
            yield path.parent
