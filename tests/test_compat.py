"""Versions of frameworks that are too old: a message, and training goes on."""

import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gradwatch
from gradwatch.compat import LOWEST, UnsupportedVersionError, require_supported, unsupported
from gradwatch.measure import framework

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


@pytest.mark.parametrize(
    ("version", "is_supported"),
    [("2.4.1", False), ("1.13.0+cu117", False), ("2.5.0+cu124", True), ("2.13.0a0+git1", True),
     ("3.0.0.dev2026", True), ("unknown", True)],
)  # fmt: skip
def test_a_version_is_supported_from_the_lowest_on(monkeypatch, version, is_supported):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__=version))
    assert (unsupported("torch") is None) == is_supported


def test_what_is_not_imported_is_not_judged(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert unsupported("torch") is None


def test_the_lowest_versions_are_those_of_the_project():
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    lowest = {name: f"{name}>={'.'.join(map(str, version))}" for name, version in LOWEST.items()}
    for name in ("tensorflow", "jax", "torch"):
        assert extras[name] == [lowest[name], lowest["keras"]]


def test_importing_the_part_of_an_old_framework_says_which_version_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="2.4.1"))
    framework.cache_clear()
    message = r'supports PyTorch 2.5 and newer. Installed: 2.4.1. .*pip install "torch>=2.5"'
    with pytest.raises(UnsupportedVersionError, match=message):
        framework("torch")
    with pytest.raises(ImportError, match=message):
        require_supported("torch")


def test_fit_with_an_old_keras_trains_and_says_that_nothing_is_recorded(monkeypatch, tmp_path):
    keras = pytest.importorskip("keras")
    monkeypatch.setattr(keras, "__version__", "3.7.0")
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, said = np.ones((8, 3), "float32"), []
    monitor = gradwatch.Monitor(tmp_path / "run", sinks=[gradwatch.Store()])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gradwatch.util.reporter.logger.warning", said.append)
        model.fit(x, x[:, :1], epochs=1, verbose=0, callbacks=[monitor])
    assert len(said) == 1
    assert "supports Keras 3.8 and newer. Installed: 3.7.0." in said[0]
    assert said[0].endswith("Nothing is recorded.")
    assert model.optimizer.iterations == 1


def test_a_loop_with_an_old_torch_trains_and_says_what_is_not_recorded(monkeypatch, tmp_path):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch, "__version__", "2.4.1")
    module = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    said = []
    monkeypatch.setattr("gradwatch.util.reporter.logger.warning", said.append)
    monitor = gradwatch.watch(module, optimizer, tmp_path / "run", sinks=[gradwatch.Store()])
    before = module.weight.detach().clone()
    module(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    monitor.close()
    assert not torch.equal(module.weight, before)
    assert len(said) == 1
    assert "supports PyTorch 2.5 and newer. Installed: 2.4.1." in said[0]
    assert "Training is not affected." in said[0]
    assert "Internal error" not in said[0]
