"""What is shipped has the front end in it, and making a report needs nothing else."""

import email
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BUILT = {
    f"gradwatch/view/static/{name}" for name in ("index.html", "app.js", "app.css", "widget.js")
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_in(tmp_path_factory.mktemp("wheel"))


def build_in(place):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = place.glob("*.whl")
    return file


def test_the_wheel_has_the_front_end_as_it_is_built(wheel):
    with zipfile.ZipFile(wheel) as packed:
        assert set(packed.namelist()) >= BUILT
        for name in BUILT:
            assert packed.read(name) == (ROOT / "src" / name).read_bytes()
        assert not [name for name in packed.namelist() if "node_modules" in name]


def test_two_builds_have_the_same_bytes(wheel, tmp_path):
    assert build_in(tmp_path).read_bytes() == wheel.read_bytes()


def test_every_npm_package_in_the_front_end_is_named_with_its_licence(wheel):
    lock = json.loads((ROOT / "viewer" / "package-lock.json").read_text())
    bundled = lock["packages"][""]["dependencies"]
    # What they need themselves would be bundled too.
    packages = lock["packages"]
    assert not [name for name in bundled if "dependencies" in packages[f"node_modules/{name}"]]
    with zipfile.ZipFile(wheel) as packed:
        (place,) = {name.split("/")[0] for name in packed.namelist() if ".dist-info/" in name}
        sbom = json.loads(packed.read(f"{place}/sboms/gradwatch.cdx.json"))
        metadata = email.message_from_bytes(packed.read(f"{place}/METADATA"))
        texts = {
            name: packed.read(f"{place}/licenses/viewer/licenses/{name}.txt").decode()
            for name in bundled
        }
    assert sbom["bomFormat"] == "CycloneDX"
    found = {each["name"]: each for each in sbom["components"]}
    assert found.keys() == bundled.keys()
    for name, each in found.items():
        version = lock["packages"][f"node_modules/{name}"]["version"]
        assert each["purl"] == f"pkg:npm/{name}@{version}"
        assert each["licenses"] == [{"license": {"id": "MIT"}}]
        assert "MIT" in texts[name]
        assert f"viewer/licenses/{name}.txt" in metadata.get_all("License-File")
    assert metadata["License-Expression"] == "Apache-2.0 AND MIT"


def test_a_report_is_made_from_the_wheel_alone(wheel, golden_run, tmp_path):
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "installed")
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import gradwatch.cli.main as m; m.main()"
    )
    command = [sys.executable, "-c", code, tmp_path / "installed", "report", golden_run]
    command += ["-o", tmp_path / "report.html"]
    # Without a PATH there is no Node.js.
    subprocess.run(list(map(str, command)), check=True, cwd=tmp_path, env={"PATH": ""})
    page = (tmp_path / "report.html").read_text()
    assert page.count("<script") == 2
    assert 'id="snapshot"' in page
