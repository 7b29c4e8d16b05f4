"""Keras trainings in which something happens on the way."""

from __future__ import annotations

import numpy as np

from ..data import accuracy, made, score
from ..program import fault, program
from ..run import Run


@program(
    plain=0.7,
    reduce_on_plateau=0.7,
    warm_restart=0.7,
    unfreeze=0.5,
    fine_rate=0.7,
    noise_burst=0.6,
    rate_jump=fault("rate jump", step=61),
    reset=fault("weights lost", step=141, layer=("one", "two", "classes")),
    freeze_early=fault("frozen in mid-training", step=6),
    units_die=fault("units die", step=61, layer="one"),
    nan_weight=fault("NaN forward", step=71, layer="two"),
    inf_rate=fault("overflow", step=51),
)
def digits(run: Run, case: str) -> float:
    """Callbacks that do something at some batch."""
    import keras
    from keras import layers

    data = made("digits", run.seed, 800)
    model = keras.Sequential(
        [
            keras.Input((64,)),
            layers.Dense(48, "relu", name="one"),
            layers.Dense(32, "relu", name="two"),
            layers.Dense(10, "softmax", name="classes"),
        ],
        name="net",
    )
    if case == "unfreeze":
        model.get_layer("one").trainable = False
    model.compile(
        keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    start = [w.copy() for w in model.get_weights()]

    class Event(keras.callbacks.Callback):
        done = 0

        def on_train_batch_end(self, batch, logs=None):
            # After this, the next batch is number `done + 1`.
            self.done += 1
            model = self.model
            if case == "rate_jump" and self.done == 60:
                model.optimizer.learning_rate = 0.8
            elif case == "reset" and self.done == 140:
                model.set_weights(start)
                model.optimizer.learning_rate = 1e-5
            elif case == "freeze_early" and self.done == 5:
                model.optimizer.learning_rate = 0.0
            elif case == "units_die" and self.done == 60:
                one = model.get_layer("one")
                one.bias.assign(one.bias * 0 - 100)
            elif case == "nan_weight" and self.done == 70:
                kernel = model.get_layer("two").kernel.numpy().copy()
                kernel[3, 4] = np.nan
                model.get_layer("two").kernel.assign(kernel)
            elif case == "inf_rate" and self.done == 50:
                model.optimizer.learning_rate = 1e30
            elif case == "warm_restart" and self.done in (60, 110):
                model.optimizer.learning_rate = 6e-3
            elif case == "fine_rate" and self.done == 90:
                model.optimizer.learning_rate = 1e-5

    callbacks = [Event(), *run.callbacks()]
    if case == "reduce_on_plateau":
        callbacks.append(keras.callbacks.ReduceLROnPlateau(patience=1, factor=0.3))
        callbacks.append(keras.callbacks.EarlyStopping(patience=4))
    x = data.x.copy()
    if case == "noise_burst":
        x[96:160] += 3 * run.rng.normal(size=(64, 64))
    if case == "unfreeze":
        model.fit(x, data.y, batch_size=32, epochs=3, verbose=0)
        model.get_layer("one").trainable = True
        model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy")
    model.fit(x, data.y, batch_size=32, epochs=6, verbose=0, callbacks=callbacks,
              validation_data=(data.val_x, data.val_y))  # fmt: skip
    return accuracy(data.truth, model.predict(data.judged_x, verbose=0))


@program(
    plain=0.6,
    one_bad_batch=0.5,
    drift=0.5,
    target_inf=fault("NaN in the data", step=43),
    input_nan=fault("NaN in the data", step=57, layer=("h1", "input", "inputs")),
    log_of_negative=fault("NaN forward", step=65),
    wrong_units=fault("data goes wrong", step=81),
    labels_turn=fault("data goes wrong", step=81),
)
def stream(run: Run, case: str) -> float:
    """Regression from a generator, whose data may change."""
    import keras
    from keras import ops

    rng = run.rng
    weight = rng.normal(size=(6, 1))

    def draw(n, step=0):
        x = rng.normal(size=(n, 6))
        y = np.sin(x[:, :1]) + x @ weight * 0.5 + 0.1 * rng.normal(size=(n, 1))
        if case == "drift":
            x = x + 0.004 * step
        return x.astype("float32"), y.astype("float32")

    def batches():
        step = 0
        while True:
            step += 1
            x, y = draw(20, step)
            if case == "target_inf" and step == 43:
                y[4] = np.inf
            elif case == "input_nan" and step == 57:
                x[2, 1] = np.nan
            elif case == "wrong_units" and step > 80:
                x = x * 300
            elif case == "labels_turn" and step > 80:
                y = 40 - 25 * y
            elif case == "one_bad_batch" and step == 70:
                y = y + 1
            elif case == "log_of_negative" and step == 65:
                x = x * 0 - 60
            yield x, y

    inputs = keras.Input((6,))
    h = keras.layers.Dense(32, "tanh", name="h1")(inputs)
    h = keras.layers.Dense(32, "tanh", name="h2")(h)
    out = keras.layers.Dense(1, name="out")(h)
    if case == "log_of_negative":
        side = keras.layers.Lambda(lambda z: 1e-3 * ops.log(50 + ops.min(z, -1, keepdims=True)))
        out = keras.layers.Add()([out, side(inputs)])
    net = keras.Model(inputs, out)
    net.compile(keras.optimizers.Adam(8e-3), "mse")
    net.fit(batches(), steps_per_epoch=35, epochs=4, verbose=0, callbacks=run.callbacks())
    xt, yt = draw(300, 140)
    return score("values", yt, net.predict(xt, verbose=0))
