"""`gradwatch demo`: what it leaves, and what it says where something is missing."""

from importlib.util import find_spec

import pytest

import gradwatch
from gradwatch import digits
from gradwatch.cli import demo, view
from tests.cli.support import invoke


def test_it_leaves_a_healthy_run_and_a_report(tmp_path, monkeypatch):
    train = digits.train
    monkeypatch.setattr(digits, "train", lambda directory: train(directory, epochs=1))
    said = invoke("demo", "--no-view", "--directory", tmp_path).stdout
    run = gradwatch.open(tmp_path / "runs" / "demo")
    assert run.last_step == 45
    assert len(run.series("gradient", "digits/conv1/kernel", "l2")[0]) == 9
    assert (tmp_path / "report.html").stat().st_size > 100_000
    assert (tmp_path / "runs/demo/pictures").is_dir()
    for way in ("report.html", "view", "top", "show", "diagnose", "summaries.csv"):
        assert way in said


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ({"keras"}, "trains a Keras model: pip install 'gradwatch[jax,view]'"),
        ({"jax", "torch", "tensorflow"}, "Keras needs a backend: pip install 'gradwatch[jax]'"),
    ],
)
def test_it_says_what_to_install(missing, words, monkeypatch):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setattr(demo, "find_spec", lambda x: None if x in missing else find_spec(x))
    assert words in invoke("demo", code=2).output


def test_a_backend_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "theano")
    assert "KERAS_BACKEND is theano" in invoke("demo", code=2).output


def test_without_the_viewers_packages_it_says_so_before_it_trains(monkeypatch):
    def check(otherwise):
        raise view.CommandError(f"The viewer needs uvicorn.\n{otherwise}")

    monkeypatch.setattr(demo, "check_viewer", check)
    assert "gradwatch demo --no-view" in invoke("demo", code=2).output
