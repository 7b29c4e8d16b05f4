"""Pictures and spectral norms of a model in fit."""

import keras
import numpy as np
import pytest
from PIL import Image

import gradwatch
from gradwatch import Kind, Site
from gradwatch.watches.probes.picture import picture
from tests.keras.support import Keep


def convolutional():
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((6, 6, 3)),
            keras.layers.Conv2D(4, 3, name="conv"),
            keras.layers.Flatten(),
            keras.layers.Dense(2, name="dense"),
        ],
        name="net",
    )
    model.compile(keras.optimizers.SGD(0.5), "mse")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 6, 6, 3)).astype("float32")
    return model, x, rng.normal(size=(8, 2)).astype("float32")


def values(model):
    return {v.path: keras.ops.convert_to_numpy(v.value) for v in model.variables}


def test_pictures_are_those_of_the_true_weights_and_gradients(tmp_path):
    model, x, y = convolutional()
    before = values(model)
    keep = Keep()
    watch = [
        gradwatch.pictures("conv/kernel", every=1),
        gradwatch.pictures("conv/kernel", of="gradient", every=1),
    ]
    sinks = [keep, gradwatch.PNG(), gradwatch.TensorBoard()]
    monitor = gradwatch.Monitor(tmp_path, watch=watch, sinks=sinks)
    model.fit(x, y, batch_size=8, verbose=0, callbacks=[monitor])
    after = values(model)["net/conv/kernel"]
    (reading,) = keep.readings
    drawn = reading.pictures[Site(Kind.WEIGHT, "net/conv/kernel")]
    np.testing.assert_array_equal(drawn, picture(after, owners=["Conv2D"]))
    # With plain SGD the step's gradient is the change over the learning rate; the
    # picture of its float32 rounding may differ by a shade.
    gradient = (before["net/conv/kernel"].astype(float) - after) / 0.5
    drawn = reading.pictures[Site(Kind.GRADIENT, "net/conv/kernel")].astype(int)
    assert np.abs(drawn - picture(gradient, owners=["Conv2D"])).max() <= 1
    for kind in ("weight", "gradient"):
        file = tmp_path / "pictures" / kind / "net.conv.kernel" / "00000001.png"
        site = Site(Kind(kind), "net/conv/kernel")
        np.testing.assert_array_equal(np.asarray(Image.open(file)), reading.pictures[site])


@pytest.mark.any_backend
def test_tensorboard_shows_the_pictures(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model, x, y = convolutional()
    watch = [gradwatch.pictures("conv/kernel", "dense/kernel", every=1)]
    monitor = gradwatch.Monitor(tmp_path, watch=watch, sinks=[gradwatch.TensorBoard()])
    model.fit(x, y, batch_size=4, verbose=0, callbacks=[monitor])
    events = EventAccumulator(str(tmp_path), size_guidance={"images": 0}).Reload()
    tags = events.Tags()["images"]
    assert sorted(tags) == [
        "per_tensor_weight_picture/net/conv/kernel",
        "per_tensor_weight_picture/net/dense/kernel",
    ]
    shown = events.Images("per_tensor_weight_picture/net/conv/kernel")
    assert [image.step for image in shown] == [1, 2]
    last = picture(values(model)["net/conv/kernel"], owners=["Conv2D"])
    assert (shown[-1].height, shown[-1].width) == last.shape[:2]


@pytest.mark.any_backend
def test_spectral_norms_are_the_largest_singular_values(tmp_path):
    model, x, y = convolutional()
    keep = Keep()
    watch = [gradwatch.spectral_norms("kernel", every=2), gradwatch.gradients(every=1)]
    sinks = [keep, gradwatch.CSV(), gradwatch.TensorBoard()]
    monitor = gradwatch.Monitor(tmp_path, watch=watch, sinks=sinks)
    model.fit(x, y, batch_size=4, epochs=2, verbose=0, callbacks=[monitor])
    found = {r.step: r.numbers(Kind.SPECTRAL_NORM) for r in keep.readings}
    assert [step for step, norms in found.items() if norms] == [2, 4]
    for path, norm in found[4].items():
        matrix = values(model)[path].astype(float)
        truth = np.linalg.norm(matrix.reshape(-1, matrix.shape[-1]), 2)
        assert norm == pytest.approx(truth, rel=1e-5)
    # A number of its own: no part of any total of the weights.
    assert keep.readings[-1].total(Kind.WEIGHT).count == 3 * 3 * 3 * 4 + 64 * 2
    table = (tmp_path / "summaries.csv").read_text()
    assert "spectral_norm,net/dense/kernel" in table


def test_a_gradient_that_does_not_exist_is_not_drawn(tmp_path):
    model, x, y = convolutional()
    model.layers[0].trainable = False
    model.compile("sgd", "mse")
    monitor = gradwatch.Monitor(
        tmp_path, watch=[gradwatch.pictures("conv/kernel", of="gradient", every=1)]
    )
    with pytest.raises(ValueError, match=r"pictures\('conv/kernel'\) matched none"):
        model.fit(x, y, verbose=0, callbacks=[monitor])


@pytest.mark.parametrize("of", ["weights", "output", ""])
@pytest.mark.any_backend
def test_pictures_of_something_else_are_refused(of):
    with pytest.raises(ValueError, match="Received: of="):
        gradwatch.pictures("conv*", of=of)


def test_training_is_the_same_with_probes(tmp_path):
    plain, x, y = convolutional()
    plain.fit(x, y, batch_size=2, epochs=2, verbose=0)
    watched, _, _ = convolutional()
    watch = [
        gradwatch.pictures(every=1),
        gradwatch.pictures(of="gradient", every=1),
        gradwatch.spectral_norms(every=1),
    ]
    monitor = gradwatch.Monitor(tmp_path, watch=watch, sinks=[gradwatch.PNG()])
    watched.fit(x, y, batch_size=2, epochs=2, verbose=0, callbacks=[monitor])
    for a, b in zip(values(plain).values(), values(watched).values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
