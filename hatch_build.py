"""Builds the viewer's front end into the package, where a wheel or an sdist is made.

What an sdist carries is built already, so installing from one needs no Node.js.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = ("index.html", "app.js", "app.css")


class FrontEnd(BuildHookInterface):  # type: ignore[type-arg]
    """Runs `npm` if the built files are absent, or older than what they are made from."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatch before it packs."""
        # An editable install takes the files from where `make` puts them, at any later time.
        if version == "editable":
            return
        root = Path(self.root)
        viewer, static = root / "viewer", root / "src" / "gradwatch" / "view" / "static"
        if is_current(viewer, static):
            return
        npm = shutil.which("npm")
        if npm is None:
            raise RuntimeError(
                f"The viewer's front end is not built: {static} lacks files, or they are older "
                f"than {viewer}. Install Node.js 20 or newer, which brings npm, and build again."
            )
        if not is_installed(viewer):
            subprocess.run([npm, "ci", "--no-audit", "--no-fund"], cwd=viewer, check=True)
        subprocess.run([npm, "run", "build"], cwd=viewer, check=True)


def is_installed(viewer: Path) -> bool:
    """Whether npm has installed what the lock file says; it keeps a note of what it has."""
    note, lock = viewer / "node_modules" / ".package-lock.json", viewer / "package-lock.json"
    return note.is_file() and note.stat().st_mtime >= lock.stat().st_mtime


def is_current(viewer: Path, static: Path) -> bool:
    """Whether all files are built, and from sources as they are now."""
    built = [static / name for name in BUILT]
    if not all(file.is_file() for file in built):
        return False
    sources = [*viewer.glob("*.*"), *(viewer / "src").rglob("*")]
    newest = max((file.stat().st_mtime for file in sources if file.is_file()), default=0.0)
    return newest <= min(file.stat().st_mtime for file in built)
