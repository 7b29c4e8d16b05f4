"""On JAX on a CPU, NumPy measures what the first measured steps of a small model return."""

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch.capture.keras.ahead import compiled_ahead
from gradwatch.capture.keras.backends import make_backend
from gradwatch.capture.keras.on_host import OnHost
from gradwatch.measure import host_work
from gradwatch.measure.host_work import HostWork

pytestmark = pytest.mark.skipif(keras.backend.backend() != "jax", reason="only on JAX")

LAYERS, WIDE = 16, 130
"""More tensors than leave a step as one array, and one that is too large to leave with others."""


class Readings(gradwatch.Sink):
    def __init__(self):
        self.rows, self.cells = {}, {}

    def write(self, reading):
        if not reading.is_report:
            rows = self.rows.setdefault(reading.step, {})
            rows |= dict(zip(reading.sites, reading.summary.pack(), strict=True))
            cells = self.cells.setdefault(reading.step, {})
            cells |= {reading.sites[i]: each for i, each in reading.cells.items()}


def trained(directory, steps=12, **options):
    """What was read of a training of two epochs, and the weights after it."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(1)
    inner = [keras.layers.Dense(6, activation="tanh") for _ in range(LAYERS)]
    layers = [*inner, keras.layers.Dense(WIDE, "relu"), keras.layers.Dense(WIDE)]
    model = keras.Sequential([keras.Input((3,)), *layers, keras.layers.Dense(1)])
    model.compile("adam", "mse")
    x = np.random.default_rng(0).normal(size=(steps * 4, 3)).astype("float32")
    seen = Readings()
    monitor = gradwatch.Monitor(directory, sinks=[seen], **options)
    given = {"batch_size": 8, "epochs": 2, "shuffle": False, "verbose": 0}
    model.fit(x, x[:, :1], callbacks=[monitor], **given)
    return seen, [np.asarray(w) for w in model.get_weights()]


@pytest.fixture
def in_the_step(tmp_path, monkeypatch):
    """The same, where the compiled step measures."""
    with monkeypatch.context() as patched:
        backend = type(make_backend(keras.Model()))
        patched.setattr(backend, "on_host", lambda backend, model: None)
        return trained(tmp_path / "in the step", every=1)


def assert_alike(some, others):
    assert some.rows.keys() == others.rows.keys()
    for step, rows in some.rows.items():
        assert rows.keys() == others.rows[step].keys()
        for site, row in rows.items():
            # Programs of XLA differ by rounding, which trains on.
            np.testing.assert_allclose(row, others.rows[step][site], 1e-3, 1e-5, err_msg=site.path)
    for step, cells in some.cells.items():
        assert cells.keys() == others.cells[step].keys()
        for site, each in cells.items():
            assert np.abs(each - others.cells[step][site]).sum() <= 0.02 * each.sum() + 4, site


def test_what_is_read_is_what_a_compiled_step_measures(tmp_path, in_the_step):
    seen, weights = trained(tmp_path / "on the host", every=1)
    assert_alike(seen, in_the_step[0])
    assert any(seen.cells.values())
    for own, other in zip(weights, in_the_step[1], strict=True):
        np.testing.assert_allclose(own, other, 1e-4, 1e-6)


def test_steps_of_which_too_many_wait_are_measured_by_the_thread_that_trains(
    tmp_path, in_the_step, monkeypatch
):
    monkeypatch.setattr(host_work, "MOST_WAITING", 0)
    seen, _ = trained(tmp_path / "run", every=1)
    assert_alike(seen, in_the_step[0])
    assert HostWork.has_room(), "nothing waits any more"


def test_when_it_has_taken_as_long_as_compiling_another_step_measures(
    tmp_path, in_the_step, monkeypatch
):
    compiled, on_host = [], []

    class Done:
        def __init__(self, work, name):
            work()
            compiled.append(name)

        def is_alive(self):
            return False

    monkeypatch.setattr(compiled_ahead.leaving, "start", Done)
    monkeypatch.setattr(OnHost, "is_dear", lambda own, calls: len(on_host) >= 5)
    monkeypatch.setattr(OnHost, "spent", lambda own, seconds: on_host.append(seconds))
    monkeypatch.setattr(host_work, "MOST_WAITING", 0)
    seen, weights = trained(tmp_path / "run", every=1)
    assert len(on_host) == 5
    assert len(compiled) == 1
    assert_alike(seen, in_the_step[0])
    for own, other in zip(weights, in_the_step[1], strict=True):
        np.testing.assert_allclose(own, other, 1e-4, 1e-6)
