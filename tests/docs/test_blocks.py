"""Every Python block of the documentation runs: here, or in the tests that TESTED names."""

import re
import sys
import warnings

import numpy as np
import pytest

import gradwatch
from gradwatch.diagnosis import all_rules
from gradwatch.diagnosis.rule import RULES
from tests.docs.preparations import PREPARATIONS, ROOT

sys.path.insert(0, str(ROOT))

from website.pages import rule_page

# By page, the tests that run its blocks.
TESTED = {
    "extending.md": "tests/test_extending.py",
    "jax.md": "tests/loop/test_jax_page.py",
    "loops.md": "tests/loop/test_docs.py",
    "start-keras.md": "tests/docs/test_tutorials.py",
    "start-torch.md": "tests/docs/test_tutorials.py",
    "trainers.md": "tests/integrations/test_trainers_page.py",
    "tuning.md": "tests/integrations/test_tuning_page.py",
}
# By page, the blocks that are not run here, by a word in them.
LEFT_OUT = {
    "remote.md": {
        "duckdb.connect": "tests/store/remote/test_many_runs.py",
        "pl.scan_parquet": "tests/store/remote/test_many_runs.py",
        "import ray": "tests/store/remote/test_many_runs.py",
        "spark.read": "tests/store/remote/test_many_runs.py",
    },
    "distributed.md": {
        "strategy.run": "tests/distributed/tensorflow",
        "keras.distribution": "tests/distributed/jax",
    },
}


def blocks_of(path):
    return re.findall(r"^```python[^\n]*\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


def pages():
    """Pages with Python blocks, by their names below docs/; tests/keras run the recipes."""
    found = {"README.md": ROOT / "README.md"}
    found |= {
        str(path.relative_to(ROOT / "docs")): path for path in sorted((ROOT / "docs").rglob("*.md"))
    }
    return {
        name: path
        for name, path in found.items()
        if blocks_of(path) and not name.startswith("recipes/")
    }


def test_every_page_with_a_block_is_run_somewhere():
    assert set(pages()) == set(PREPARATIONS) | set(TESTED)
    for test in TESTED.values():
        assert (ROOT / test).exists()


@pytest.fixture
def own_rules():
    """A block that adds a rule adds it for its test alone."""
    before = dict(RULES)
    yield
    for name in RULES.keys() - before.keys():
        del RULES[name]


@pytest.mark.usefixtures("own_rules")
@pytest.mark.parametrize("name", sorted(PREPARATIONS))
def test_the_blocks_of_a_page_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for variable in ("GRADWATCH_STAGING", "GRADWATCH_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path / "cache"))
    left_out = LEFT_OUT.get(name, {})
    monitors = []
    with PREPARATIONS[name]() as names:
        for code in blocks_of(pages()[name]):
            if not any(word in code for word in left_out):
                code = code.replace("s3://bucket", "memory://bucket")
                exec(compile(code, name, "exec"), names)
                monitors += [x for x in names.values() if isinstance(x, gradwatch.Monitor)]
        for monitor in monitors:
            monitor.close()


@pytest.mark.parametrize("name", all_rules())
def test_the_block_of_a_rules_page_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monitor = gradwatch.Monitor("runs/rule", every=1, diagnose=False)
    for _ in range(3):
        monitor.record(gradients={"a": np.ones(3)}, variables={"a": np.ones(3)}, loss=1.0)
    monitor.close()
    text = rule_page(all_rules()[name], f"# {name}\n")
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    with gradwatch.open("runs/rule") as run, warnings.catch_warnings():
        exec(block, {"gradwatch": gradwatch, "run": run})
