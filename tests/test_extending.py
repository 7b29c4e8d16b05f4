"""The code in docs/extending.md runs, and adds what the page says it adds."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import SOURCES

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
SINK, RULE, STATISTIC, KIND = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
TRAINING = """
import sys
import numpy as np

monitor = gradwatch.Monitor(
    sys.argv[1], every=1,
    watch=[gradwatch.gradients(), gradwatch.weights(), singular_values(every=1)],
    sinks=[gradwatch.Store(), JsonLines()], diagnose=["large-biases"],
)
for step in range(1, 4):
    weights = {"a/kernel": np.diag([3.0, 4.0]) * step, "a/bias": np.array([0.0, 20.0])}
    monitor.record(variables=weights, gradients={name: x / 2 for name, x in weights.items()})
monitor.close()
with gradwatch.open(monitor.directory) as run:
    print(json.dumps({
        "norms": [json.loads(line) for line in open(monitor.directory / "norms.jsonl")],
        "findings": [finding.title for finding in monitor.findings],
        "spread": run.series("weight", "a/bias", "spread")[1].tolist(),
        "singular": run.series("singular_value", "a/kernel", "max")[1].tolist(),
    }))
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    # In a process of its own: rules, statistics and kinds are registered for good.
    place = tmp_path_factory.mktemp("extending")
    program = place / "program.py"
    program.write_text("\n".join([SINK, RULE, STATISTIC, KIND, TRAINING]))
    done = subprocess.run(
        [sys.executable, program, place / "run"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": SOURCES, "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_sink_writes_the_norms_of_layers(recorded):
    for step, line in enumerate(recorded["norms"], 1):
        values = [1.5 * step, 2.0 * step, 0.0, 10.0]
        np.testing.assert_allclose(line["a"], np.linalg.norm(values))


def test_the_rule_finds_the_large_bias(recorded):
    assert recorded["findings"] == ["a/bias is large."]


def test_the_statistic_is_read_back(recorded):
    assert recorded["spread"] == [20.0] * 3


def test_the_kind_is_recorded(recorded):
    np.testing.assert_allclose(recorded["singular"], [4.0, 8.0, 12.0])
