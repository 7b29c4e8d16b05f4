"""A statistic and a kind that a user's module adds: each one entry, and found everywhere."""

from __future__ import annotations

import csv
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gradwatch
from gradwatch.core import (
    FIELDS,
    KINDS,
    STATISTICS,
    UPDATE_RATIO,
    VALUE,
    Kind,
    Site,
    Statistic,
    Summary,
    add_kind,
    add_statistic,
)
from gradwatch.view import data
from gradwatch.view.data import RunView, Window
from gradwatch.view.data.quantity import quantity
from tests.conftest import SOURCES
from tests.view.data.made import doubles

MODULE = '''
"""Singular values of weights, and how far apart the elements of any tensor are."""

import numpy as np

from gradwatch.core import Statistic, add_kind, add_statistic
from gradwatch.watches import probed

SPREAD = add_statistic(Statistic(
    "spread", ("min", "max"), lambda s: s.max - s.min, "max - min", "spread", "linear", "units"))

SINGULAR_VALUE = add_kind(
    "singular_value", "variable", "Singular values of the variable's matrix.",
    label="singular values", unit="stretch")


class SingularValues:
    kind = SINGULAR_VALUE
    function_name = "singular_values"

    def __call__(self, path, owners, values):
        return np.linalg.svd(values.reshape(-1, values.shape[-1]), compute_uv=False)


def singular_values(*selection, every=1):
    return probed(SingularValues(), *selection, every=every)
'''

PATHS = ("net/a/kernel", "net/b/kernel")
STEPS = range(1, 7)


def weights(step: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(step)
    return {path: rng.normal(size=(4, 3)) for path in PATHS}


def singular(step: int, path: str) -> np.ndarray:
    """By another algorithm than the module's: the eigenvalues of the Gram matrix."""
    matrix = weights(step)[path]
    return np.sqrt(np.linalg.eigvalsh(matrix.T @ matrix))


TRUTH = {
    "weight": {path: [np.ptp(weights(s)[path]) for s in STEPS] for path in PATHS},
    "singular_value": {path: [np.ptp(singular(s, path)) for s in STEPS] for path in PATHS},
}


@pytest.fixture(scope="module")
def added(tmp_path_factory):
    """A module of the user's, imported; the tables are as they were when the tests end."""
    place = tmp_path_factory.mktemp("modules")
    (place / "spectra.py").write_text(MODULE)
    before = dict(KINDS), dict(STATISTICS)
    sys.path.insert(0, str(place))
    try:
        yield importlib.import_module("spectra")
    finally:
        sys.path.remove(str(place))
        sys.modules.pop("spectra", None)
        for table, entries in zip((KINDS, STATISTICS), before, strict=True):
            table.clear()
            table.update(entries)


@pytest.fixture(scope="module")
def directory(added, tmp_path_factory):
    """A run that has recorded both."""
    monitor = gradwatch.Monitor(
        tmp_path_factory.mktemp("runs") / "a",
        every=1,
        watch=[gradwatch.weights(), added.singular_values("kernel")],
        sinks=[
            gradwatch.Store(),
            gradwatch.CSV(),
            gradwatch.TensorBoard(statistics=("l2", "spread")),
            gradwatch.Totals(statistics=["spread"], kind="singular_value", every=6),
        ],
    )
    with monitor:
        for step in STEPS:
            monitor.record(variables=weights(step))
    return monitor.directory


@pytest.mark.parametrize("kind", TRUTH)
@pytest.mark.parametrize("path", PATHS)
def test_they_are_in_the_reader_and_in_sql(directory, kind, path):
    with gradwatch.open(directory) as run:
        steps, values = run.series(kind, path, "spread")
        assert steps.tolist() == list(STEPS)
        np.testing.assert_allclose(values, TRUTH[kind][path], rtol=1e-9)
        found = run.sql(
            "SELECT spread FROM summaries WHERE kind = ? AND path = ? ORDER BY step", [kind, path]
        )
        np.testing.assert_allclose([row[0] for row in found], TRUTH[kind][path], rtol=1e-9)
        table = run.heatmap(kind, "spread")
        np.testing.assert_allclose(
            table.values[[site.path for site in table.sites].index(path)], TRUTH[kind][path]
        )


def test_all_statistics_of_the_new_kind_are_those_of_its_values(directory):
    with gradwatch.open(directory) as run:
        norms = [run.series("singular_value", path, "l2")[1] for path in PATHS]
    truth = [[np.linalg.norm(singular(s, path)) for s in STEPS] for path in PATHS]
    np.testing.assert_allclose(norms, truth, rtol=1e-9)


def test_they_are_in_the_csv(directory):
    with (directory / "summaries.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for kind, of_kind in TRUTH.items():
        for path, truth in of_kind.items():
            own = [r for r in rows if (r["kind"], r["path"]) == (kind, path)]
            np.testing.assert_allclose([float(r["spread"]) for r in own], truth, rtol=1e-9)


def test_they_are_in_tensorboard(directory, tensorboard):
    series = tensorboard(directory)["series"]
    for kind, of_kind in TRUTH.items():
        for path, truth in of_kind.items():
            _, _, points = series[f"per_tensor_{kind}_spread/{path}"]
            assert [step for step, _ in points] == list(STEPS)
            np.testing.assert_allclose([float(v) for _, v in points], truth, rtol=1e-6)
    assert series["per_tensor_singular_value_l2/net/a/kernel"][1] == KINDS["singular_value"].meaning
    total = [np.ptp(np.concatenate([singular(s, p) for p in PATHS])) for s in STEPS]
    found = [float(v) for _, v in series["model/singular_value_spread"][2]]
    np.testing.assert_allclose(found, total, rtol=1e-6)


def test_they_are_in_the_views(directory):
    with gradwatch.open(directory) as run:
        shown = RunView(run, "0", "a")
        kinds = {each["kind"]: each for each in data.overview(shown, [])["kinds"]}
        assert kinds["singular_value"]["label"] == "singular values"
        menu = {each["name"]: each for each in kinds["singular_value"]["statistics"]}
        assert menu["spread"] == {
            "name": "spread", "label": "spread", "unit": "units", "scale": "linear",
        }  # fmt: skip
        assert menu["l2"]["unit"] == "stretch"
        assert "spread" in {each["name"] for each in kinds["weight"]["statistics"]}
        for kind, of_kind in TRUTH.items():
            for path, truth in of_kind.items():
                series = data.series(shown, kind, path, Window(100))
                np.testing.assert_allclose(doubles(series["statistics"]["spread"]), truth)
        assert quantity(Kind("singular_value"), "l2").label == "singular values, L2 norm (stretch)"


@pytest.fixture
def command(added):
    """`gradwatch` in a process of its own, which is told to import the module."""

    def run(*arguments: object) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "gradwatch", "--import", "spectra", *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=Path(added.__file__).parent,
            env={**os.environ, "PYTHONPATH": SOURCES},
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_they_are_in_the_command_line(directory, command):
    answer = json.loads(
        command("show", directory, "--kind", "singular_value", "--statistic", "spread", "--json")
    )
    found = {each["path"]: each for each in answer["sites"]}
    for path, truth in TRUTH["singular_value"].items():
        shown = [found[path][name] for name in ("first", "last", "lowest", "highest")]
        np.testing.assert_allclose(shown, [truth[0], truth[-1], min(truth), max(truth)])
    rows = list(csv.DictReader(command("export", directory).splitlines()))
    for kind, of_kind in TRUTH.items():
        for path, truth in of_kind.items():
            own = [r for r in rows if (r["kind"], r["path"]) == (kind, path)]
            np.testing.assert_allclose([float(r["spread"]) for r in own], truth, rtol=1e-9)
    with pytest.raises(AssertionError, match="Did you mean 'spread'"):
        command("show", directory, "--kind", "weight", "--statistic", "spred")


@pytest.mark.parametrize("name", [*STATISTICS, VALUE.name])
def test_a_statistic_needs_no_more_than_the_fields_it_names(name):
    statistic = {**STATISTICS, VALUE.name: VALUE}[name]
    whole = Summary.of(np.array([3.0, -4.0, 0.0, np.nan, np.inf]))
    some = Summary(*(getattr(whole, f) if f in statistic.fields else np.nan for f in FIELDS))
    np.testing.assert_array_equal(statistic(some), statistic(whole))


def test_every_entry_has_words_and_a_place_in_menus():
    assert len({each.menu_order for each in STATISTICS.values()}) == len(STATISTICS)
    for each in (*STATISTICS.values(), VALUE, UPDATE_RATIO):
        assert each.label
    for kind in KINDS.values():
        assert kind.label
        assert kind.meaning.endswith(".")
        assert set(kind.shown_as) <= set(STATISTICS)


def test_a_kind_is_one_object_wherever_it_comes_from():
    import copy
    import pickle

    for kind in KINDS.values():
        assert Kind(str(kind)) is Kind(kind) is kind
        assert pickle.loads(pickle.dumps(kind)) is copy.deepcopy(kind) is kind
        assert pickle.loads(pickle.dumps(Site(kind, "a"))) == Site(kind, "a")
        assert f"{kind}" == str(kind) == json.loads(json.dumps(kind)) == kind


def test_a_name_that_is_taken_or_cannot_be_a_column_is_refused():
    def statistic(name, fields=("sum",)):
        return Statistic(name, fields, lambda s: s.sum, "sum", "sum")

    for name in ("l2", "sum_squares", "value", "update_ratio"):
        with pytest.raises(ValueError, match="already"):
            add_statistic(statistic(name))
    with pytest.raises(ValueError, match="reads a field that it does not name"):
        add_statistic(Statistic("share", ("zeros",), lambda s: s.zeros / s.count, "zeros", "share"))
    strange = Statistic("share", ("zeros",), lambda s: s.zeros, "zeros", "share", "percent")
    with pytest.raises(ValueError, match="scale is one of log, signed, linear"):
        add_statistic(strange)
    for name in ("two words", "Upper", "1st", ""):
        with pytest.raises(ValueError, match="lower-case identifier"):
            add_statistic(statistic(name))
        with pytest.raises(ValueError, match="lower-case identifier"):
            add_kind(name, "variable", "Something.")
    with pytest.raises(ValueError, match="no 'median'"):
        add_statistic(statistic("middle", ("median",)))
    with pytest.raises(ValueError, match="already"):
        add_kind("gradient", "variable", "Another.")
    with pytest.raises(ValueError, match=r"no kind 'hessian'.*gradient"):
        Kind("hessian")
