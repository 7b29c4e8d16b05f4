"""Every recipe runs, and what it records is true."""

import re
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image

from gradwatch.watches.probes.picture import picture
from tests.keras.recipes import (
    DIRECTORY,
    STEPS,
    batches_for,
    code_of,
    compiled,
    events,
    run_fit,
    run_loop,
    table,
)
from tests.keras.support import State, classes, normal
from tests.keras.truth import gradients_of

pytestmark = pytest.mark.usefixtures("in_empty_directory")
on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="a loop with tf.GradientTape"
)
dense = keras.layers.Dense


@pytest.fixture
def in_empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def three_layers():
    layers = [
        dense(8, "relu", name="first"),
        dense(6, "tanh", name="middle"),
        dense(3, name="head"),
    ]
    return compiled(keras.Input((5,)), *layers), normal(32, 5), normal(32, 3, seed=1)


def assert_histograms(run, kind, paths, steps, true_value):
    """These histograms, at these steps, with the true moments."""
    read = events(run)
    assert sorted(read.Tags()["histograms"]) == sorted(
        f"per_tensor_{kind}/{path}" for path in paths
    )
    for path in paths:
        shown = read.Histograms(f"per_tensor_{kind}/{path}")
        assert [h.step for h in shown] == steps
        for h in shown:
            truth = true_value(path, h.step)
            size = np.abs(truth).sum()
            assert h.histogram_value.num == truth.size
            assert h.histogram_value.sum == pytest.approx(truth.sum(), abs=1e-4 * size)
            assert h.histogram_value.sum_squares == pytest.approx((truth**2).sum(), rel=1e-3)
            assert h.histogram_value.max == pytest.approx(truth.max(), abs=1e-4 * size)
            assert sum(h.histogram_value.bucket) == truth.size


def norms(x):
    return {"l1": np.abs(x).sum(), "l2": np.linalg.norm(x), "linf": np.abs(x).max()}


@pytest.mark.any_backend
def test_01_gradient_histograms_each_epoch():
    model, x, y = three_layers()
    truth = run_fit(1, model, x, y)
    paths = [v.path for v in model.trainable_variables]
    assert_histograms("epochs", "gradient", paths, [4, 8, 12], truth.gradient)


@pytest.mark.any_backend
def test_02_gradients_of_chosen_layers():
    model, x, y = three_layers()
    truth = run_fit(2, model, x, y)
    paths = ["net/middle/kernel", "net/head/kernel"]
    assert_histograms("layers", "gradient", paths, [4, 8, 12], truth.gradient)


@pytest.mark.any_backend
def test_03_gradients_every_n_batches():
    model, x, y = three_layers()
    truth = run_fit(3, model, x, y)
    paths = [v.path for v in model.trainable_variables]
    assert_histograms("batches", "gradient", paths, [5, 10], truth.gradient)


@pytest.mark.any_backend
def test_10_weight_norms_to_csv():
    model, x, y = three_layers()
    truth = run_fit(10, model, x, y)
    rows = [row for row in table("norms") if row["kind"] == "weight"]
    assert len(rows) == 3 * 3
    for row in rows:
        assert int(row["step"]) == 4 * int(row["epoch"])
        assert row["path"].endswith("/kernel")
        true_norm = np.linalg.norm(truth.weight(row["path"], int(row["step"])))
        assert float(row["l2"]) == pytest.approx(true_norm, rel=1e-6)


@pytest.mark.any_backend
def test_11_several_norms_every_n_steps():
    model, x, y = three_layers()
    truth = run_fit(11, model, x, y)
    read = events("several")
    for name in ("l1", "l2", "linf"):
        for path in truth.paths:
            shown = read.Scalars(f"per_tensor_weight_{name}/{path}")
            assert [s.step for s in shown] == [5, 10]
            for s in shown:
                assert s.value == pytest.approx(norms(truth.weight(path, s.step))[name], rel=1e-5)
        everything = np.concatenate([truth.weight(p, 10).ravel() for p in truth.paths])
        total = read.Scalars(f"model/weight_{name}")[-1].value
        assert total == pytest.approx(norms(everything)[name], rel=1e-5)
        layer = np.concatenate(
            [truth.weight(f"net/head/{p}", 10).ravel() for p in ("kernel", "bias")]
        )
        total = read.Scalars(f"per_layer_weight_{name}/net/head")[-1].value
        assert total == pytest.approx(norms(layer)[name], rel=1e-5)


@pytest.mark.any_backend
def test_12_norms_of_every_variable():
    model = compiled(
        keras.Input((4,), dtype="int32"),
        keras.layers.Embedding(9, 3),
        keras.layers.Flatten(),
        keras.layers.BatchNormalization(),
        dense(2),
    )
    truth = run_fit(12, model, classes(9, 32, 4), normal(32, 2))
    read = events("all")
    assert len(model.weights) == 7
    for variable in model.weights:
        shown = read.Scalars(f"per_tensor_weight_l2/{variable.path}")
        assert [s.step for s in shown] == [4, 8, 12]
        for s in shown:
            true_norm = np.linalg.norm(truth.weight(variable.path, s.step))
            assert s.value == pytest.approx(true_norm, rel=1e-5)


def small_images():
    model = compiled(
        keras.Input((6, 6, 2)),
        keras.layers.Conv2D(3, 3, activation="tanh", name="conv"),
        keras.layers.Conv2D(2, 3, name="conv_2"),
        keras.layers.Flatten(),
        dense(4, name="hidden"),
        dense(3, name="head"),
    )
    return model, normal(8, 6, 6, 2), normal(8, 3, seed=1)


def inspected(number, model, x, y):
    """Run a recipe that inspects; what it leaves in its namespace."""
    names = {"model": model, "x": x, "y": y}
    exec(code_of(number), names)
    return names


def true_gradients(model, x, y):
    """By a differentiation of its own, in the order of the trainable variables."""
    found = gradients_of(model)(State.of(model), (x, y, None))
    return {v.path: g for v, g in zip(model.trainable_variables, found, strict=True)}


@pytest.mark.any_backend
def test_07_gradient_of_a_layers_output(capsys):
    model, x, y = small_images()
    names = inspected(7, model, x, y)
    # By hand, without differentiating anything: the layers above are linear.
    values = {v.path: np.asarray(keras.ops.convert_to_numpy(v), float) for v in model.weights}
    predicted = np.asarray(keras.ops.convert_to_numpy(model(x)), float)
    slope = 2 * (predicted - y) / y.size
    slope = slope @ values["net/head/kernel"].T @ values["net/hidden/kernel"].T
    slope = slope.reshape(8, 2, 2, 2)
    truth = np.zeros((8, 4, 4, 3))
    kernel = values["net/conv_2/kernel"]
    for i, j in np.ndindex(3, 3):
        truth[:, i : i + 2, j : j + 2] += np.einsum("bhwo,io->bhwi", slope, kernel[i, j])
    np.testing.assert_allclose(names["gradient"], truth, rtol=1e-4, atol=1e-6)
    printed = capsys.readouterr().out
    assert "conv" in printed
    assert f"{np.linalg.norm(truth):.3g}"[:4] in printed


@pytest.mark.any_backend
def test_08_gradients_of_kernel_and_bias():
    model, x, y = small_images()
    names = inspected(8, model, x, y)
    truth = true_gradients(model, x, y)
    np.testing.assert_allclose(names["kernel"], truth["net/conv/kernel"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(names["bias"], truth["net/conv/bias"], rtol=1e-4, atol=1e-6)


@pytest.mark.any_backend
def test_09_some_layers_of_a_larger_model(capsys):
    model, x, y = small_images()
    found = inspected(9, model, x, y)["found"]
    truth = true_gradients(model, x, y)
    for layer in ("conv", "conv_2", "head"):
        for part in ("kernel", "bias"):
            path = f"net/{layer}/{part}"
            np.testing.assert_allclose(found.numpy(path), truth[path], rtol=1e-4, atol=1e-6)
    assert "hidden" not in capsys.readouterr().out
    assert found.loss == pytest.approx(model.evaluate(x, y, verbose=0), rel=1e-5)


@on_tensorflow
def test_04_weights_and_biases_in_a_tape_loop():
    model, _, _ = three_layers()
    variables = {v.path: v for v in model.variables}
    truth = run_loop(4, variables, batches_for(model, 3), model=model)
    assert_histograms("loop", "weight", list(variables), [5, 10], truth.weight)


@on_tensorflow
def test_05_convolution_kernels_as_images():
    model = compiled(
        keras.Input((6, 6, 2)),
        keras.layers.Conv2D(12, 3, name="conv1"),
        keras.layers.Flatten(),
        dense(3),
    )
    variables = {v.path: v for v in model.variables}
    truth = run_loop(5, variables, batches_for(model, 3), model=model)
    path = "net/conv1/kernel"
    shown = events("images").Images(f"per_tensor_weight_picture/{path}")
    assert [image.step for image in shown] == [5, 10]
    for step in (5, 10):
        file = Path("runs/images/pictures/weight/net.conv1.kernel", f"{step:08d}.png")
        expected = picture(truth.weight(path, step), owners=["Conv2D"], max_outputs=8)
        np.testing.assert_array_equal(np.asarray(Image.open(file)), expected)


@on_tensorflow
def test_06_recurrent_weights_by_gate():
    model = compiled(keras.Input((5, 3)), keras.layers.LSTM(4, name="lstm"), dense(3))
    variables = {v.path: v for v in model.variables}
    truth = run_loop(6, variables, batches_for(model, 3), model=model)
    gates = ["input", "forget", "cell", "output"]
    cell = "net/lstm/lstm_cell"

    def sliced(path, step):
        whole, gate = re.fullmatch(r"(.*)\[(.*)\]", path).groups()
        return np.split(truth.weight(whole, step), 4, axis=-1)[gates.index(gate)]

    paths = [
        f"{cell}/{part}[{g}]" for part in ("kernel", "recurrent_kernel", "bias") for g in gates
    ]
    assert_histograms("lstm", "weight", paths, [5, 10], sliced)
    rows = [r for r in table("lstm") if r["kind"] == "gradient"]
    assert [(r["step"], r["path"]) for r in rows] == [
        ("5", f"{cell}/kernel[forget]"),
        ("10", f"{cell}/kernel[forget]"),
    ]
    for row in rows:
        forget = np.split(truth.gradient(f"{cell}/kernel", int(row["step"])), 4, axis=-1)[1]
        assert float(row["l2"]) == pytest.approx(np.linalg.norm(forget), rel=1e-3)


@on_tensorflow
def test_13_print_gradient_sums(capsys):
    import tensorflow as tf

    w, b = tf.Variable([1.0, -2.0], name="w"), tf.Variable(0.5, name="b")
    batches = [(tf.constant(normal(8, 2, seed=i)), tf.constant(normal(8, 2, seed=50 + i)))
               for i in range(STEPS)]  # fmt: skip
    truth = run_loop(13, {"w": w, "b": b}, batches, w=w, b=b)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("step")]
    assert [int(line.split()[1]) for line in lines] == [5, 10]
    for line in lines:
        step = int(line.split()[1])
        whole = np.concatenate([truth.gradient(p, step).ravel() for p in ("w", "b")])
        printed = {n: float(re.search(rf"\b{n} (\S+)", line)[1]) for n in ("sum", "l1", "l2")}
        size = np.abs(whole).sum()
        assert printed["sum"] == pytest.approx(whole.sum(), abs=1e-4 * size)
        assert printed["l1"] == pytest.approx(size, rel=1e-4)
        assert printed["l2"] == pytest.approx(np.linalg.norm(whole), rel=1e-4)


@on_tensorflow
def test_14_gradient_accumulation():
    import tensorflow as tf

    model, _, _ = three_layers()
    variables = {v.path: v for v in model.variables}
    single = batches_for(model, 3, count=6)
    steps = [single[0:2], single[2:4], single[4:6]]
    truth = run_loop(14, variables, steps, model=model)
    rows = table("accumulated")
    assert len(rows) == 3 * 3 * len(variables)
    for row in rows:
        step = int(row["step"])
        part = re.match(r"micro_batch_(\d)/", row["path"])
        path = row["path"][part.end() :] if part else row["path"]
        if part is None:
            expected = truth.gradient(path, step)
        else:
            # The micro-batch's own, by another tape at the weights before the step.
            before = {v.path: v.numpy() for v in model.variables}
            for variable in model.variables:
                variable.assign(truth.weight(variable.path, step - 1) if step > 1 else
                                truth._steps[0][0][variable.path])  # fmt: skip
            x, y = steps[step - 1][int(part[1])]
            with tf.GradientTape() as tape:
                loss = keras.losses.MeanSquaredError()(y, model(x, training=True)) / 2
            expected = tape.gradient(loss, variables[path].value).numpy().astype(float)
            for variable in model.variables:
                variable.assign(before[variable.path])
        assert float(row["l2"]) == pytest.approx(np.linalg.norm(expected), rel=1e-3)


@on_tensorflow
def test_15_gradients_of_a_compiled_loop():
    model, _, _ = three_layers()
    variables = {v.path: v for v in model.variables}
    truth = run_loop(15, variables, batches_for(model, 3), model=model)
    read = events("compiled")
    for layer in dict.fromkeys(path.rpartition("/")[0] for path in variables):
        shown = read.Scalars(f"per_layer_gradient_l2/{layer}")
        # A loop without epochs is in its first, of which the first step stands for all.
        assert [s.step for s in shown] == [1, 5, 10]
        for s in shown:
            own = [truth.gradient(p, s.step).ravel() for p in variables if p.startswith(layer)]
            true_norm = np.linalg.norm(np.concatenate(own))
            assert s.value == pytest.approx(true_norm, rel=1e-3)
    whole = np.concatenate([truth.gradient(p, 10).ravel() for p in variables])
    total = read.Scalars("model/gradient_l2")[-1].value
    assert total == pytest.approx(np.linalg.norm(whole), rel=1e-3)


@pytest.mark.any_backend
def test_each_recipe_is_short_and_in_the_index():
    index = (DIRECTORY / "README.md").read_text()
    files = sorted(p.name for p in DIRECTORY.glob("[0-9]*.md"))
    assert len(files) == 15
    for number, name in enumerate(files, start=1):
        assert name.startswith(f"{number:02d}-")
        assert f"({name})" in index
        lines = [line for line in code_of(number).splitlines() if line.strip()]
        assert len(lines) <= 16, name
