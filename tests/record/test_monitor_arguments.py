"""What a monitor refuses to be made from, before any training."""

import pytest

import gradwatch


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"every": 0}, ValueError, "n=0"),
        ({"every": "batch"}, ValueError, "'batch'"),
        ({"every": 1.5}, TypeError, "1.5"),
        ({"every": 10, "budget": 0.01}, ValueError, "either every= or budget="),
        ({"budget": 0}, ValueError, "budget=0"),
        ({"budget": "1%"}, TypeError, "'1%'"),
        ({"layers": [1.5]}, TypeError, "1.5"),
        ({"layers": ["a"], "watch": [gradwatch.gradients()]}, ValueError, "either layers= or"),
        ({"watch": []}, ValueError, "measures nothing"),
        ({"watch": ["gradients"]}, TypeError, "'gradients'"),
        ({"sinks": ["tensorboard"]}, TypeError, "'tensorboard'"),
    ],
)
def test_bad_arguments_are_refused_with_the_culprit(arguments, error, message):
    with pytest.raises(error, match=message):
        gradwatch.Monitor("runs/never", **arguments)


def test_making_a_monitor_writes_nothing(tmp_path):
    gradwatch.Monitor(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_without_a_directory_the_run_is_named_after_the_time():
    assert gradwatch.Monitor().directory.parts[0] == "runs"


def test_sites_are_those_of_a_keras_model_only():
    with pytest.raises(TypeError, match="Received: int"):
        gradwatch.sites(3)
