"""Builds the viewer's front end into the package, where a wheel or an sdist is made.

The README of a package links to the repository: a package index shows it alone.

The licences of the npm packages that it contains, and an SBOM that names them, are made with it.
What an sdist carries is built already, so installing from one needs no Node.js.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

BUILT = ("index.html", "app.js", "app.css", "widget.js")
SBOM = "viewer/gradwatch.cdx.json"
LICENCES = "viewer/licenses"

PAGES = "https://github.com/gradwatch/gradwatch/blob/main/"
IMAGES = "https://raw.githubusercontent.com/gradwatch/gradwatch/main/"


class PackageReadme(MetadataHookInterface):
    """Makes the links of the README absolute."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatch before it builds."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_absolute_links(text)}


def with_absolute_links(text: str) -> str:
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?:)", rf"\g<1>{IMAGES}", text)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?!https?:|#)", rf"\g<1>{PAGES}", text)


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
        if not is_current(viewer, static):
            npm = npm_command(f"{static} lacks files, or they are older than {viewer}")
            if not is_installed(viewer):
                install(npm, viewer)
            subprocess.run([npm, "run", "build"], cwd=viewer, check=True)
        packages = bundled_packages(viewer)
        texts = {name: root / LICENCES / f"{name}.txt" for name in packages}
        if not all(text.is_file() for text in texts.values()):
            if not is_installed(viewer):
                install(npm_command(f"{root / LICENCES} lacks licences"), viewer)
            copy_licences(viewer, texts)
        sbom = json.dumps(bill_of_materials(self.metadata.version, packages), indent=2) + "\n"
        (root / SBOM).write_text(sbom, encoding="utf-8")
        # hatch has looked for them already, perhaps before they were there.
        licences = self.metadata.core.license_files
        licences[:] = sorted({*licences, *(f"{LICENCES}/{name}.txt" for name in packages)})
        if self.target_name == "wheel":
            build_data["sbom_files"].append(SBOM)


def npm_command(why: str) -> str:
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError(
            f"The viewer's front end is not built: {why}. Install Node.js 20 or newer, which "
            "brings npm, and build again."
        )
    return npm


def install(npm: str, viewer: Path) -> None:
    subprocess.run([npm, "ci", "--no-audit", "--no-fund"], cwd=viewer, check=True)


def is_installed(viewer: Path) -> bool:
    """Whether npm has installed what the lock file says; it keeps a note of what it has."""
    note, lock = viewer / "node_modules" / ".package-lock.json", viewer / "package-lock.json"
    return note.is_file() and note.stat().st_mtime >= lock.stat().st_mtime


def is_current(viewer: Path, static: Path) -> bool:
    """Whether all files are built, and from sources as they are now."""
    built = [static / name for name in BUILT]
    if not all(file.is_file() for file in built):
        return False
    made = viewer / Path(SBOM).name
    sources = [*(f for f in viewer.glob("*.*") if f != made), *(viewer / "src").rglob("*")]
    newest = max((file.stat().st_mtime for file in sources if file.is_file()), default=0.0)
    return newest <= min(file.stat().st_mtime for file in built)


def bundled_packages(viewer: Path) -> dict[str, dict[str, Any]]:
    """What the lock file says of each npm package that the front end contains, by its name.

    All others are only needed to build it.
    """
    lock = json.loads((viewer / "package-lock.json").read_text(encoding="utf-8"))
    return {
        path.removeprefix("node_modules/"): package
        for path, package in sorted(lock["packages"].items())
        if path and not package.get("dev")
    }


def copy_licences(viewer: Path, texts: dict[str, Path]) -> None:
    for name, text in texts.items():
        text.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(viewer / "node_modules" / name / "LICENSE", text)


def bill_of_materials(version: str, packages: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """CycloneDX; without the time and the random number of a build, so that builds are equal."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component("library", "pypi", "gradwatch", version, "Apache-2.0")},
        "components": [
            {
                **component("library", "npm", name, package["version"], package["license"]),
                "hashes": [{"alg": "SHA-512", "content": sha512(package["integrity"])}],
            }
            for name, package in packages.items()
        ],
    }


def component(kind: str, registry: str, name: str, version: str, licence: str) -> dict[str, Any]:
    purl = f"pkg:{registry}/{name.replace('@', '%40')}@{version}"
    return {
        "type": kind,
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "licenses": [{"license": {"id": licence}}],
    }


def sha512(integrity: str) -> str:
    """The hash of a package in hexadecimal, from npm's form."""
    return base64.b64decode(integrity.removeprefix("sha512-")).hex()
