"""Which trainings continue a run, and which begin another beside it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch.core import Kind, LayerFacts, ModelFacts, Site, SiteInfo
from gradwatch.record.continuation import Beginning


def model_named(name, units=2):
    layers = [
        keras.Input((3,)),
        keras.layers.Dense(units, name="hidden"),
        keras.layers.Dense(1, name="out"),
    ]
    model = keras.Sequential(layers, name=name)
    model.compile("adam", "mse")
    return model


def fit(model, steps, *monitors, epochs=1):
    x, y = np.ones((4 * steps, 3), "float32"), np.ones((4 * steps, 1), "float32")
    callbacks = list(monitors)
    model.fit(x, y, batch_size=4, epochs=epochs, shuffle=False, verbose=0, callbacks=callbacks)


def monitor_of(directory, **options):
    return gradwatch.Monitor(directory, every=1, sinks=[gradwatch.Store()], **options)


def recorded(directory):
    """The steps of each model, by its name."""
    with gradwatch.open(directory) as run:
        assert not run.damage
        rows = run.sql(
            "select distinct path, step from summaries where kind = 'weight' order by step"
        ).fetchall()
    found: dict[str, list[int]] = {}
    for path, step in rows:
        steps = found.setdefault(path.partition("/")[0], [])
        if step not in steps:
            steps.append(step)
    return found


def test_one_monitor_for_two_models_keeps_both(tmp_path):
    monitor = monitor_of(tmp_path / "a")
    fit(model_named("first"), 4, monitor)
    with pytest.warns(gradwatch.GradwatchWarning, match=r"a holds the training of another model"):
        fit(model_named("second"), 3, monitor)
    assert monitor.directory == tmp_path / "a-2"
    assert recorded(tmp_path / "a") == {"first": [1, 2, 3, 4]}
    assert recorded(tmp_path / "a-2") == {"second": [1, 2, 3]}


def test_models_that_one_monitor_trains_by_turns_each_continue_their_own_run(tmp_path):
    monitor = monitor_of(tmp_path / "a")
    critic, actor = model_named("critic"), model_named("actor")
    fit(critic, 2, monitor)
    with pytest.warns(gradwatch.GradwatchWarning, match="another model"):
        fit(actor, 1, monitor)
    for _ in range(2):
        fit(critic, 2, monitor)
        fit(actor, 1, monitor)
    assert recorded(tmp_path / "a") == {"critic": [1, 2, 3, 4, 5, 6]}
    assert recorded(tmp_path / "a-2") == {"actor": [1, 2, 3]}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "a-2"]


@pytest.mark.parametrize("diagnose", [True, False])
def test_a_script_with_another_model_in_the_same_directory_hides_nothing(tmp_path, diagnose):
    fit(model_named("net"), 4, monitor_of(tmp_path / "a", diagnose=diagnose))
    wider = model_named("net", units=5)
    with pytest.warns(gradwatch.GradwatchWarning, match="another model. Writing to .*a-2"):
        fit(wider, 2, monitor_of(tmp_path / "a", diagnose=diagnose))
    # Also at a later step: as from a checkpoint of another model.
    wider.optimizer.iterations.assign(10)
    with pytest.warns(gradwatch.GradwatchWarning, match="continues the run in .*a-2"):
        fit(wider, 1, monitor_of(tmp_path / "a", diagnose=diagnose))
    assert recorded(tmp_path / "a") == {"net": [1, 2, 3, 4]}
    assert recorded(tmp_path / "a-2") == {"net": [1, 2, 11]}


def test_the_same_training_from_its_beginning_is_another_run(tmp_path):
    for number in range(3):
        model = model_named("net")
        if number == 0:
            fit(model, 3, monitor_of(tmp_path / "a"))
        else:
            with pytest.warns(gradwatch.GradwatchWarning, match="step 1 on already"):
                fit(model, 3, monitor_of(tmp_path / "a"))
    for name in ("a", "a-2", "a-3"):
        assert recorded(tmp_path / name) == {"net": [1, 2, 3]}


def test_a_training_resumed_from_a_checkpoint_continues_the_last_run(tmp_path):
    def checkpointed(step):
        model = model_named("net")
        model.optimizer.build(model.trainable_variables)
        model.optimizer.iterations.assign(step)
        return model

    fit(model_named("net"), 3, monitor_of(tmp_path / "a"))
    with pytest.warns(gradwatch.GradwatchWarning, match="a-2"):
        fit(model_named("net"), 6, monitor_of(tmp_path / "a"))
    # A directory with such a name, of which it was not asked to be the second.
    fit(model_named("net"), 9, monitor_of(tmp_path / "a-3"))
    with pytest.warns(gradwatch.GradwatchWarning, match="continues the run in .*a-2"):
        fit(checkpointed(4), 3, monitor_of(tmp_path / "a"))
    assert recorded(tmp_path / "a") == {"net": [1, 2, 3]}
    assert recorded(tmp_path / "a-2") == {"net": [1, 2, 3, 4, 5, 6, 7]}
    assert recorded(tmp_path / "a-3") == {"net": list(range(1, 10))}


def test_a_model_that_is_compiled_again_goes_on_in_its_run(tmp_path):
    monitor, model = monitor_of(tmp_path / "a"), model_named("net")
    model.layers[0].trainable = False
    model.compile("adam", "mse")
    fit(model, 3, monitor)
    model.layers[0].trainable = True
    model.compile("sgd", "mse")
    fit(model, 2, monitor, epochs=2)
    assert recorded(tmp_path / "a") == {"net": [1, 2, 3, 4, 5, 6, 7]}


def test_what_recorded_nothing_is_no_run_to_keep(tmp_path):
    class Failing(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            raise RuntimeError("a mistake in the script")

    with pytest.raises(RuntimeError, match="a mistake"):
        fit(model_named("net"), 3, monitor := monitor_of(tmp_path / "a"), Failing())
    monitor.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error", gradwatch.GradwatchWarning)
        fit(model_named("other"), 3, monitor_of(tmp_path / "a"))
    assert recorded(tmp_path / "a") == {"other": [1, 2, 3]}


def test_two_monitors_of_one_fit_get_a_directory_each(tmp_path):
    with pytest.warns(gradwatch.GradwatchWarning, match="Writing to .*a-2"):
        fit(model_named("net"), 3, monitor_of(tmp_path / "a"), monitor_of(tmp_path / "a"))
    for name in ("a", "a-2"):
        assert recorded(tmp_path / name) == {"net": [1, 2, 3]}


def test_a_loop_continues_with_a_later_step_and_its_groups(tmp_path):
    def train(steps):
        with monitor_of(tmp_path / "a") as monitor:
            for step in steps:
                for group in ("generator", "discriminator"):
                    weights = {"kernel": np.ones((2, 3))}
                    monitor.record(variables=weights, gradients=weights, step=step, group=group)

    train(range(1, 4))
    train(range(3, 6))
    assert recorded(tmp_path / "a") == {
        "generator": [1, 2, 3, 4, 5], "discriminator": [1, 2, 3, 4, 5]
    }  # fmt: skip
    with pytest.warns(gradwatch.GradwatchWarning, match="step 1 on already"):
        train(range(1, 3))
    assert recorded(tmp_path / "a-2") == {"generator": [1, 2], "discriminator": [1, 2]}


def write(directory: Path, content) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "summaries.csv").write_text("step\n")
    # Of format 1, which has no checksum.
    (directory / "run.json").write_text(json.dumps({"format": 1, **content}))
    return directory


def beginning(step=5, **layers):
    facts = ModelFacts([LayerFacts(path, "Dense", units=units) for path, units in layers.items()])
    return Beginning.of(step, facts, [])


@pytest.mark.parametrize(
    ("known", "is_same"),
    [
        ([("a", "Dense", 3), ("b", "Dense", 1)], True),
        ([("a", "Dense", None), ("b", None, 1)], True),
        ([("a", "Dense", 3)], True),
        ([], True),
        ([("a", "Dense", 4), ("b", "Dense", 1)], False),
        ([("a", "Conv2D", 3), ("b", "Dense", 1)], False),
        ([("a", "Dense", 3), ("c", "Dense", 1)], False),
    ],
)
def test_models_are_compared_as_far_as_they_are_known(tmp_path, known, is_same):
    layers = [{"path": p, "class_name": c, "units": u} for p, c, u in known]
    write(tmp_path, {"fits": [{"first_step": 1}], "model": {"layers": layers}})
    assert (beginning(a=3, b=1).obstacle(tmp_path) == "") == is_same


def test_variables_are_compared_by_their_shapes(tmp_path):
    sites = [{"kind": "weight", "path": "a/kernel", "shape": [3, 2]}]
    write(tmp_path, {"fits": [{"first_step": 1}], "sites": sites})
    for path, shape, is_same in (
        ("a/kernel", (3, 2), True),
        ("a/kernel", (3, 4), False),
        ("other/kernel", (3, 2), False),
    ):
        info = SiteInfo(Site(Kind.WEIGHT, path), shape, "float32", "kernel")
        assert (Beginning.of(5, ModelFacts(), [info]).obstacle(tmp_path) == "") == is_same


@pytest.mark.parametrize(
    "content",
    [
        {}, {"fits": 3}, {"fits": []}, {"fits": [7]}, {"fits": [{"first_step": "x"}]},
        {"model": []}, {"model": {"layers": {"a": 1}}}, {"model": {"layers": [1, {}]}},
        {"sites": "x"}, {"sites": [{"kind": 3}, {"kind": "weight", "shape": 4}, None]},
    ],
)  # fmt: skip
def test_a_description_of_another_form_is_one_of_which_nothing_is_known(tmp_path, content):
    write(tmp_path, content)
    assert beginning(step=1, a=3).obstacle(tmp_path) != ""
    assert "another model" not in beginning(step=1, a=3).obstacle(tmp_path)
    assert beginning(step=2, a=3).obstacle(tmp_path) in ("", "holds the training of another model")
