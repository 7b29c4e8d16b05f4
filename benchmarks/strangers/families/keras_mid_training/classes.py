"""Digits; at some step something changes."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, bundled
from ...program import fault, program
from ...run import Run
from .events import before


@program(
    plain=0.6,
    sgd=0.6,
    steps_down=0.6,
    warm_restarts=0.6,
    unfreezing=0.5,
    plateau=0.6,
    other_data=0.5,
    harder=0.5,
    head_again=0.5,
    rate_jump=fault("rate jump", step=71, twin="sgd"),
    nan_data=fault("NaN in the data", step=66),
    labels_shuffled=fault("labels go wrong", step=51),
    zeroed=fault("layer zeroed", step=91, layer="second"),
    frozen=fault("frozen in mid-training", step=6),
    units_die=fault("units die", step=81, layer="second"),
    clipped_away=fault("clipped to nothing", step=8, twin="sgd"),
    dropout_of_all=fault("dropout of everything", step=8),
    spike=fault("spike", step=131, twin="sgd"),
    decay=fault("decay sets in", step=61),
    rescaled=fault("data goes wrong", step=96, twin="sgd"),
)
def digits(run: Run, case: str) -> float:
    """Batches come from a generator, as they do from a pipeline."""
    import keras
    from keras import layers

    x, y, xt, yt = bundled("digits", run.seed)
    x, xt = x / 16, xt / 16
    begins = {"nan_data": 66, "labels_shuffled": 51, "spike": 131, "rescaled": 96,
              "other_data": 71, "harder": 71}.get(case, 1000)  # fmt: skip
    rng = run.rng

    def batches():
        step = 0
        while True:
            step += 1
            i = rng.integers(0, len(x), 32)
            batch, target = x[i].copy(), y[i]
            if case == "nan_data" and step == begins:
                batch[3, 20] = np.nan
            elif case == "labels_shuffled" and step >= begins:
                target = rng.permutation(target)
            elif case == "spike" and step == begins:
                batch, target = batch * 3000, (target + 1) % 10
            elif case == "rescaled" and step >= begins:
                batch = batch * 255
            elif case == "other_data" and step >= begins:
                batch = batch[:, ::-1].copy()
            elif case == "harder" and step >= begins:
                batch = batch + 0.3 * rng.normal(size=batch.shape)
            yield batch.astype("float32"), target

    model = keras.Sequential([
        keras.Input((64,)),
        layers.Dense(48, "relu", name="first"),
        layers.Dense(48, "relu", name="second"),
        layers.Dropout(0.1, name="drop"),
        layers.Dense(10, name="head"),
    ])  # fmt: skip
    first, second, drop, head = model.layers
    if case in ("sgd", "rate_jump", "clipped_away", "spike", "rescaled", "steps_down", "plateau"):
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    else:
        optimizer = keras.optimizers.AdamW(3e-3, weight_decay=0.01)
    if case == "warm_restarts":
        optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecayRestarts(0.01, 50))
    if case == "unfreezing":
        first.trainable = second.trainable = False
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])

    def rate(value):
        optimizer.learning_rate = value

    def lose(layer, bias):
        kernel, old = layer.get_weights()
        layer.set_weights([kernel if bias else 0 * kernel, 0 * old + bias])

    def start_again():
        fresh = run.rng.normal(size=(48, 10)) * 0.1
        head.set_weights([fresh, np.zeros(10)])

    def freeze():
        for layer in (first, second, head):
            layer.trainable = False

    happens = {
        "rate_jump": (71, lambda: rate(200.0)),
        "zeroed": (91, lambda: lose(second, 0.0), 140),
        "units_die": (81, lambda: lose(second, -100.0)),
        "frozen": (6, freeze),
        "clipped_away": (8, lambda: setattr(optimizer, "clipnorm", 1e-9)),
        "dropout_of_all": (8, lambda: setattr(drop, "rate", 0.9999)),
        "decay": (61, lambda: setattr(optimizer, "weight_decay", 100.0)),
        "steps_down": (81, lambda: rate(0.01)),
        "head_again": (71, start_again),
    }
    callbacks = run.callbacks()
    if case in happens:
        callbacks.append(before(*happens[case]))
    if case == "plateau":
        callbacks.append(
            keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=1, min_delta=0.2)
        )
    if case == "unfreezing":
        model.fit(batches(), steps_per_epoch=28, epochs=2, verbose=0, callbacks=callbacks)
        first.trainable = second.trainable = True
        model.compile(keras.optimizers.Adam(2e-3), loss, metrics=["accuracy"])
    model.fit(batches(), steps_per_epoch=28, epochs=5, verbose=0, callbacks=callbacks)
    xt = xt[:, ::-1].copy() if case == "other_data" else xt
    return accuracy(yt, model.predict(xt, verbose=0))
