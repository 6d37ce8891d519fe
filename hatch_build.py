"""Build hook: places the chart library (uPlot, exact version and integrity in `web/package-lock.json`) beside the pages.

Wheel and sdist carry the files, so whoever installs from them needs no node. An editable install without npm works as well: the pages
then draw plain SVG charts and say how to fetch the rest. A wheel built from git without npm is refused: it would have no charts for anybody.
`REBUILD_UI=1` fetches anew where files already exist.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILES = {
    "dist/uPlot.esm.js": "uPlot.esm.js",
    "dist/uPlot.min.css": "uPlot.min.css",
    "LICENSE": "LICENSE-uPlot.txt",
}


def fetch(root: Path) -> str:
    """Copy the files into `_vendor/`; returns an empty string, or one sentence that says why it could not be done."""
    vendor = root / "src" / "umsicht" / "dashboard" / "_vendor"
    if all((vendor / name).is_file() for name in FILES.values()) and os.environ.get("REBUILD_UI") != "1":
        return ""
    npm = shutil.which("npm")
    if npm is None:
        return "npm was not found; install Node.js 18 or later, then run the build again"
    try:
        subprocess.run(
            [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev"],
            cwd=root / "web",
            check=True,
            capture_output=True,
            text=True,
            timeout=300,
        )
    except (subprocess.SubprocessError, OSError) as error:
        detail = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        return f"`npm ci` in web/ failed: {detail[-1] if detail else error}"
    vendor.mkdir(parents=True, exist_ok=True)
    for source, name in FILES.items():
        shutil.copyfile(root / "web" / "node_modules" / "uplot" / source, vendor / name)
    return ""


class UiHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        problem = fetch(Path(self.root))
        if not problem:
            return
        if version == "editable":
            print(f"umsicht: the live charts fall back to SVG: {problem}.", file=sys.stderr)
            return
        raise SystemExit(f"umsicht: the dashboard's chart library is missing: {problem}.")


if __name__ == "__main__":
    sys.exit(fetch(Path(__file__).parent) or 0)
