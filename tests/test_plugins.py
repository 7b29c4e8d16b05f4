"""Rules and sinks of other packages: a real one is installed, whole and broken."""

import os
import subprocess
import sys
import textwrap
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import gradwatch
from gradwatch.util import plugins

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "dummy-watcher"
version = "1.0"

[project.entry-points."gradwatch.rules"]
dummy = "dummy_watcher.rules"
torn = "dummy_watcher.torn"
clash = "dummy_watcher.clash"
empty = "dummy_watcher.empty"

[project.entry-points."gradwatch.sinks"]
steps = "dummy_watcher.sinks:Steps"
torn = "dummy_watcher.torn:Sink"
unmade = "dummy_watcher.sinks:unmade"
number = "dummy_watcher.sinks:number"
"""
RULES = """
from gradwatch.diagnosis import rule

@rule("dummy", severity="warning")
def dummy(history):
    yield "The dummy saw a step."
"""
SINKS = """
import gradwatch

class Steps(gradwatch.Sink):
    def open(self, run):
        self._file = run.directory / "steps.txt"

    def write(self, reading):
        with open(self._file, "a") as file:
            file.write(f"{reading.step}\\n")

def unmade():
    raise KeyError("no server")

number = 3
"""
CLASH = """
from gradwatch.diagnosis import rule

@rule("dead-units", remedy="Mine.")
def dead_units(history):
    yield "All is dead."
"""
SOURCES = Path(gradwatch.__file__).parents[1]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Where the package is installed."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    package = source / "dummy_watcher"
    package.mkdir()
    (source / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").touch()
    (package / "rules.py").write_text(RULES)
    (package / "sinks.py").write_text(SINKS)
    (package / "clash.py").write_text(CLASH)
    (package / "empty.py").write_text("RULES = []")
    (package / "torn.py").write_text("raise RuntimeError('torn in two')")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
         "--no-build-isolation", "--target", target, source],
        check=True, timeout=300,
    )  # fmt: skip
    return target


def run_with(place, code, *args):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (place, SOURCES)))},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def test_importing_gradwatch_imports_nothing_of_other_packages(place):
    said = run_with(place, "import gradwatch, sys; print('dummy_watcher' in sys.modules)")
    assert said.stdout.split() == ["False"]


def test_rules_and_sinks_of_a_package_work_and_broken_ones_are_named_once(place, tmp_path):
    code = """
    import sys
    import numpy as np
    import gradwatch
    for number in range(2):
        monitor = gradwatch.Monitor(
            f"{sys.argv[1]}/{number}", every=1,
            sinks=[gradwatch.Store(), "steps", "torn", "unmade", "number"],
        )
        for step in range(3):
            w = np.ones(3) * step
            monitor.record(gradients={"w": w}, variables={"w": w}, loss=1.0)
        monitor.close()
        print(*sorted(f.rule for f in monitor.findings if f.rule == "dummy"))
    diagnosis = gradwatch.diagnose(gradwatch.open(f"{sys.argv[1]}/0"))
    print(*[f.rule for f in diagnosis.findings if f.rule == "dummy"])
    """
    done = run_with(place, code, tmp_path)
    assert done.stdout.splitlines()[-1] == "dummy"
    assert "dummy" in done.stdout.splitlines()[:-1]
    assert (tmp_path / "1" / "steps.txt").read_text().split() == ["1", "2", "3"]
    torn = "'torn' of the package 'dummy-watcher' (entry point gradwatch.{}) failed and is left out"
    for group in ("rules", "sinks"):
        assert done.stderr.count(torn.format(group)) == 1
    assert "RuntimeError: torn in two" in done.stderr
    assert "'unmade' of the package 'dummy-watcher' (entry point gradwatch.sinks)" in done.stderr
    assert "is no gradwatch.Sink and is left out. Received: 3" in done.stderr


def test_a_rule_whose_name_is_taken_and_an_entry_without_rules_are_named_once(place):
    code = """
    from gradwatch.diagnosis import Diagnosis, all_rules
    Diagnosis(), Diagnosis()
    print("dummy" in all_rules(), all_rules()["dead-units"].remedy == "Mine.")
    """
    done = run_with(place, code)
    assert done.stdout.split() == ["True", "False"]
    assert done.stderr.count("has a rule 'dead-units', which is left out: that name is taken") == 1
    assert done.stderr.count("declares no rule with @rule: dummy_watcher.empty") == 1


def test_a_sink_that_several_packages_bring_is_the_first_ones_and_says_so(monkeypatch):
    class Package:
        def __init__(self, name):
            self.name = name

    def entry(package):
        found = EntryPoint("steps", f"{package}:Steps", plugins.SINKS)
        object.__setattr__(found, "dist", Package(package))
        return found

    monkeypatch.setattr(plugins, "installed", lambda group: (entry("first"), entry("second")))
    found = plugins.entry_of.__wrapped__
    with pytest.warns(gradwatch.GradwatchWarning, match="packages: 'first', 'second'. That of 'f"):
        assert found(plugins.SINKS, "steps").value == "first:Steps"
    assert found(plugins.SINKS, "other") is None


def test_a_name_that_no_package_has_is_an_error(tmp_path):
    with pytest.raises(TypeError, match="Received: 'nowhere'"):
        gradwatch.Monitor(tmp_path / "run", sinks=["nowhere"])
