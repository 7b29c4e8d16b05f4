"""The wheel in an empty environment without Node.js: train, view, read the page."""

import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TRAIN = """
import keras, gradwatch, numpy as np
model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x = np.ones((64, 3), "float32")
model.fit(x, x[:, :1], batch_size=8, verbose=0, callbacks=[gradwatch.Monitor("runs/a", every=1)])
print(gradwatch.__file__)
"""


# It downloads Keras and JAX.
@pytest.mark.slow
def test_the_wheel_trains_and_shows_in_an_environment_of_its_own(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist"]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    own = tmp_path / "venv" / "bin"
    subprocess.run(
        [own / "python", "-m", "pip", "install", "--quiet", f"{wheel}[jax,view]"], check=True
    )
    # Without the PATH there is no Node.js, and without PYTHONPATH no other gradwatch.
    keep = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env = {**keep, "PATH": str(own), "KERAS_BACKEND": "jax"}
    trained = subprocess.run(
        [own / "python", "-c", TRAIN], cwd=tmp_path, env=env, check=True, text=True,
        capture_output=True,
    )  # fmt: skip
    assert str(tmp_path / "venv") in trained.stdout
    command = [own / "gradwatch", "view", "runs", "--no-browser", "--port", "0"]
    with subprocess.Popen(
        command, cwd=tmp_path, env={**env, "PYTHONUNBUFFERED": "1"}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as server:  # fmt: skip
        try:
            lines = iter(server.stdout.readline, "")
            found = (re.search(r"http://\S+", line) for line in lines)
            address = next(each for each in found if each is not None)[0]
            with urllib.request.urlopen(address, timeout=60) as answer:
                page = answer.read().decode()
            assert "app.js" in page
        finally:
            server.terminate()
