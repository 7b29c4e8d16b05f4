"""Names that are nearly right are answered with the right one."""

import inspect

import pytest

import gradwatch
from gradwatch.util import did_you_mean


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("histogram", r"watch=\[gradwatch.gradients\(histogram=True\)\]"),
        ("histograms", r"watch=\[gradwatch.gradients\(histogram=True\)\]"),
        ("layer", "layers="),
        ("logdir", "directory="),
        ("log_dir", "directory="),
        ("directry", "directory="),
        ("sink", "sinks="),
        ("watches", "watch="),
        ("gradients", r"watch=\[gradwatch.gradients\(\)\]"),
        ("frequency", "every="),
        ("rules", "diagnose="),
        ("on_findings", "on_finding="),
        ("Every", "every="),
    ],
)
def test_a_monitor_says_which_argument_was_meant(wrong, right):
    with pytest.raises(TypeError, match=rf"no argument '{wrong}'\. Did you mean {right}\?"):
        gradwatch.Monitor("runs/never", **{wrong: 1})


def test_an_argument_that_is_like_no_other_gets_the_list():
    with pytest.raises(TypeError, match=r"'xyz'\. It takes by name: directory, every, budget"):
        gradwatch.Monitor(xyz=1)


@pytest.mark.parametrize(
    ("function", "wrong", "right"),
    [
        (gradwatch.gradients, "histograms", "histogram="),
        (gradwatch.gradients, "layers", "the selection without a name"),
        (gradwatch.outputs, "dead_units", "per_unit="),
        (gradwatch.pictures, "kind", "of="),
        (gradwatch.losses, "freq", "every="),
        (gradwatch.CSV, "file_name", "filename="),
        (gradwatch.Console, "rows", "max_rows="),
        (gradwatch.TensorBoard, "logdir", r"Monitor\(directory\)"),
        (gradwatch.Totals, "group", "groups="),
        (gradwatch.Store, "ranks", "rank="),
        (gradwatch.PNG, "foldr", "folder="),
        (gradwatch.watch, "model", "module="),
        (gradwatch.watch, "logdir", "directory="),
        (gradwatch.open, "directory", "path="),
        (gradwatch.report, "overwrite", "force="),
        (gradwatch.diagnose, "rule", "rules="),
        (gradwatch.inspect, "layer", "layers="),
        (gradwatch.compare, "stat", "statistic="),
    ],
)
def test_so_do_all_other_functions(function, wrong, right):
    with pytest.raises(TypeError, match=f"Did you mean {right}"):
        function(**{wrong: 1})


@pytest.mark.parametrize(
    ("method", "wrong", "right"),
    [
        ("record", "grads", "gradients="),
        ("record", "model", "variables="),
        ("record", "lost", "loss="),
        ("record", "x", "inputs="),
        ("measure", "param", "variables="),
        ("tape", "persistant", "persistent="),
        ("due", "iteration", "step="),
    ],
)
def test_and_the_methods_of_loops(method, wrong, right):
    monitor = gradwatch.Monitor("runs/never", sinks=[])
    with pytest.raises(TypeError, match=rf"{method}\(\) .* Did you mean {right}"):
        getattr(monitor, method)(**{wrong: 1})


def test_no_argument_is_suggested_that_the_function_does_not_have():
    monitor = gradwatch.Monitor("runs/never", sinks=[])
    with pytest.raises(TypeError) as error:
        monitor.measure(x=1)
    assert "inputs" not in str(error.value)


@pytest.mark.parametrize(
    ("ask", "meant"),
    [
        (lambda: gradwatch.Kind("gradiant"), "'gradient'"),
        (lambda: gradwatch.Kind("activations"), "'output'"),
        (lambda: gradwatch.Totals(statistics=["norm"]), "'l2'"),
        (lambda: gradwatch.TensorBoard(["max_abs"]), "'linf'"),
        (lambda: gradwatch.pictures(of="gradients"), "'gradient'"),
        (lambda: gradwatch.Moniter, "'Monitor'"),
        (lambda: gradwatch.Monitor(watch=["gradients"]), r"gradwatch.gradients\(\)"),
        (lambda: gradwatch.Monitor(watch=[gradwatch.weights]), r"gradwatch.weights\(\)"),
        (lambda: gradwatch.Monitor(sinks=["tensorboard"]), r"gradwatch.TensorBoard\(\)"),
        (lambda: gradwatch.Monitor(sinks=[gradwatch.CSV]), r"gradwatch.CSV\(\)"),
    ],
)
def test_kinds_statistics_watches_and_sinks_are_suggested(ask, meant):
    with pytest.raises((TypeError, ValueError, AttributeError), match=rf"Did you mean {meant}\?"):
        ask()


def test_what_is_like_nothing_gets_no_suggestion():
    assert did_you_mean("zzz", ["gradient", "weight"]) == ""


def test_signatures_stay_as_they_are():
    assert list(inspect.signature(gradwatch.gradients).parameters) == [
        "selection", "every", "histogram", "per_replica",
    ]  # fmt: skip
    assert "directory" in inspect.signature(gradwatch.Monitor).parameters
