"""The tutorials, followed literally in an empty directory: files are saved, commands are run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SOURCES
from tests.variants import rarely

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r'^```(python title="(\S+)"|sh)\n(.*?)^```', re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("page", "rule"),
    [("start-torch.md", "kept-gradients"), *rarely(("start-keras.md", "vanishing-gradients"))],
)
def test_a_tutorial_can_be_followed(page, rule, tmp_path):
    said = []
    environment = os.environ | {
        "PYTHONPATH": SOURCES,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    for kind, file, text in BLOCK.findall((DOCS / page).read_text()):
        if kind != "sh":
            (tmp_path / file).write_text(text)
            continue
        # A report needs the built viewer, which is tested where it is built.
        text = re.sub(r"^gradwatch report .*$", "", text, flags=re.MULTILINE)
        done = subprocess.run(
            ["bash", "-e", "-c", text],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert "verdict: learned (loss" in said[0]
    assert "measured steps; the last norm is" in "".join(said)
    assert f"[{rule}]" in "".join(said)
