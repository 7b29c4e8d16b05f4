"""What is shipped has the front end in it, and making a report needs nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BUILT = {f"gradwatch/view/static/{name}" for name in ("index.html", "app.js", "app.css")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    place = tmp_path_factory.mktemp("wheel")
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
