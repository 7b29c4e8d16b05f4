"""The widget in a real JupyterLab, live while a cell trains.

JupyterLab is large, so it is no requirement of the tests: `pip install jupyterlab`.
"""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.conftest import SOURCES
from tests.view.chromium import Watched, chromium
from tests.view.serving import PATIENCE

jupyterlab = pytest.importorskip("jupyterlab", reason="JupyterLab is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.any_backend]

SHOW = """\
import time
from pathlib import Path
import gradwatch, numpy as np
monitor = gradwatch.Monitor("runs/a", every=1, sinks=[gradwatch.Store()])
monitor.widget()"""
# It trains until the test has seen enough.
TRAIN = """\
step = 0
while not Path("enough").exists():
    step += 1
    gradients = {f"net/block{i}/kernel": np.full(4, 1.0 + i) for i in range(6)}
    monitor.record(gradients=gradients, loss=1.0 / step)
    time.sleep(0.05)
monitor.close()
print("trained to", step)"""


def notebook():
    cells = [
        {
            "cell_type": "code",
            "id": f"cell{i}",
            "metadata": {},
            "source": source,
            "outputs": [],
            "execution_count": None,
        }
        for i, source in enumerate((SHOW, TRAIN))
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


@contextmanager
def lab(place):
    """A JupyterLab of its own, and the address of its notebook."""
    (place / "t.ipynb").write_text(json.dumps(notebook()))
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    own = {f"JUPYTER_{name}_DIR": str(place / "own" / name) for name in ("CONFIG", "RUNTIME")}
    own |= {"JUPYTERLAB_SETTINGS_DIR": str(place / "own"), "PYTHONPATH": SOURCES}
    own |= {"JUPYTERLAB_WORKSPACES_DIR": str(place / "own" / "workspaces")}
    command = [sys.executable, "-m", "jupyterlab", "--allow-root", "--no-browser", f"--port={port}"]
    command += ["--IdentityProvider.token=", "--ServerApp.password=", f"--notebook-dir={place}"]
    with subprocess.Popen(
        command, env={**os.environ, **own}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            deadline = time.monotonic() + PATIENCE
            while True:
                assert process.poll() is None
                assert time.monotonic() < deadline
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/lab/tree/t.ipynb"
        finally:
            process.terminate()


def test_the_overview_grows_while_a_cell_trains_and_a_site_comes_after_it(tmp_path):
    with lab(tmp_path) as address, chromium() as browser, Watched(browser) as window:
        page = window.page
        page.goto(address)
        page.locator(".jp-CodeCell .cm-content").first.click()
        kernel = page.locator(".jp-Notebook-ExecutionIndicator")
        window.until(lambda: kernel.get_attribute("data-status") == "idle")
        page.keyboard.press("Shift+Enter")
        frame = page.frame_locator("iframe[title=gradwatch]")
        frame.get_by_text("There is no run yet").wait_for()
        page.keyboard.press("Shift+Enter")

        def step():
            words = frame.locator("body").inner_text().replace(",", "").split()
            return int(words[words.index("step") + 1]) if "live" in words else 0

        first = window.until(step)
        window.until(lambda: step() > first + 20)
        assert kernel.get_attribute("data-status") == "busy"
        frame.locator(".labels a.name").last.click()
        frame.get_by_text("The kernel runs a cell").wait_for()
        if os.environ.get("GRADWATCH_SCREENSHOTS"):
            shots = Path(os.environ["GRADWATCH_SCREENSHOTS"])
            page.locator("iframe[title=gradwatch]").screenshot(path=shots / "jupyterlab.png")
        assert frame.locator(".site-charts").count() == 0
        (tmp_path / "enough").touch()
        page.get_by_text("trained to").wait_for()
        frame.locator(".site-charts canvas").first.wait_for()
        assert frame.get_by_text("The kernel runs a cell").count() == 0
        frame.get_by_role("link", name="a", exact=True).click()
        frame.get_by_text("finished").first.wait_for()
