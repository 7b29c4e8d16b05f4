"""Keras models that are trained further: frozen parts, adapters, norms, half precision."""

from __future__ import annotations

import numpy as np

from ..data import accuracy, made, shapes
from ..program import fault, program
from ..run import Run


@program(
    frozen_backbone=0.5,
    two_phases=0.6,
    adapter=0.5,
    only_norm_and_head=0.5,
    small_rate=0.6,
    all_frozen=fault("all frozen"),
    head_frozen=fault("all frozen", twin="two_phases"),
    adapter_off=fault("all frozen", twin="adapter"),
    catastrophic=fault("rate too high", twin="small_rate"),
    rate_left_at_nothing=fault("rate too low"),
    inputs_not_scaled=fault("unscaled inputs"),
)
def backbone(run: Run, case: str) -> float:
    """A network that knows odd and even digits learns all ten."""
    import keras
    from keras import layers

    data = made("digits", run.seed, 700)
    base = keras.Sequential(
        [
            keras.Input((64,)),
            layers.Dense(48, "relu", name="base_1"),
            layers.BatchNormalization(name="norm"),
            layers.Dense(32, "relu", name="base_2"),
        ],
        name="base",
    )
    before = keras.Sequential([base, layers.Dense(5, "softmax")])
    before.compile(keras.optimizers.Adam(4e-3), "sparse_categorical_crossentropy")
    before.fit(data.x, data.y // 2, batch_size=50, epochs=4, verbose=0)

    trains_base = ("two_phases", "catastrophic", "small_rate", "head_frozen")
    base.trainable = case in trains_base or case == "only_norm_and_head"
    if case == "only_norm_and_head":
        base.get_layer("base_1").trainable = base.get_layer("base_2").trainable = False
    h = base(keras.Input((64,), name="pixels"))
    inputs = h._keras_history.operation._inbound_nodes[-1].input_tensors[0]
    if case in ("adapter", "adapter_off"):
        down = layers.Dense(8, "relu", name="down", trainable=case == "adapter")(h)
        up = layers.Dense(32, kernel_initializer="zeros", name="up", trainable=case == "adapter")
        h = h + up(down)
    head = layers.Dense(10, "softmax", name="head")
    if case in ("all_frozen", "adapter_off"):
        head.trainable = False
    model = keras.Model(inputs, head(h))
    if case == "head_frozen":
        base.trainable, head.trainable = False, False
    rate = {"two_phases": 1e-2, "catastrophic": 2.0, "small_rate": 3e-3}.get(case, 8e-3)
    if case == "rate_left_at_nothing":
        rate = 1e-7
    model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", metrics=["acc"])
    x, held = data.x, data.judged_x
    if case == "inputs_not_scaled":
        x, held = x * 6000 + 20000, held * 6000 + 20000
    callbacks = run.callbacks()
    model.fit(x, data.y, batch_size=35, epochs=7, verbose=0, callbacks=callbacks,
              validation_data=(data.val_x, data.val_y))  # fmt: skip
    return accuracy(data.truth, model.predict(held, verbose=0))


@program(
    plain=0.3,
    layer_norm=0.5,
    group_norm=0.4,
    norm_first=0.3,
    norm_kept_in_inference=fault("norm in inference mode"),
    one_sample=fault("norm of one sample"),
    norm_last=fault("norm of one sample", twin="layer_norm"),
    without_norm_deep=fault("vanishing", twin="layer_norm"),
)
def norms(run: Run, case: str) -> float:
    """Deep tanh networks that need their normalization."""
    import keras
    from keras import layers

    x, y = shapes(run.seed, 800, side=10)
    x = x.reshape(len(x), -1)
    if case == "norm_kept_in_inference":
        x = x * 500 + 2000
    xt, yt, x, y = x[:200], y[:200], x[200:], y[200:]
    inputs = keras.Input((100,))
    h = inputs
    if case == "norm_first":
        h = layers.BatchNormalization()(h)
    for i in range(12 if case == "without_norm_deep" else 2):
        start = keras.initializers.RandomNormal(stddev=0.015)
        h = layers.Dense(48, kernel_initializer=start, name=f"d{i}")(h)
        if case == "layer_norm":
            h = layers.LayerNormalization()(h)
        elif case == "group_norm":
            h = layers.GroupNormalization(6)(h)
        elif case == "norm_kept_in_inference":
            h = layers.BatchNormalization(name=f"n{i}")(h, training=False)
        elif case != "without_norm_deep":
            h = layers.BatchNormalization(name=f"n{i}")(h)
        h = layers.Activation("tanh")(h)
    if case == "norm_last":
        h = layers.LayerNormalization(axis=-1)(layers.Dense(1, name="narrow")(h))
    model = keras.Model(inputs, layers.Dense(4, "softmax", name="classes")(h))
    model.compile(keras.optimizers.Adam(4e-3), "sparse_categorical_crossentropy")
    size, epochs = (1, 1) if case == "one_sample" else (30, 8)
    if case == "one_sample":
        x, y = x[:300], y[:300]
    model.fit(x, y, batch_size=size, epochs=epochs, verbose=0, callbacks=run.callbacks())
    return accuracy(yt, model.predict(xt, verbose=0))


@program(
    bfloat16=0.6,
    loss_scaled=0.6,
    float16_plain=0.5,
    pure_bfloat16=fault("rounded away"),
    scale_too_low=fault("loss scale", twin="loss_scaled"),
    overflow=fault("overflow", twin="float16_plain"),
)
def precision(run: Run, case: str) -> float:
    """Mixed precision, by the policies of Keras."""
    import keras
    from keras import layers

    data = made("digits", run.seed, 700)
    mixed = "mixed_bfloat16" if "bfloat16" in case else "mixed_float16"
    policy = "bfloat16" if case == "pure_bfloat16" else mixed
    x, held = data.x, data.judged_x
    if case == "overflow":
        x, held = x * 3e4, held * 3e4
    keras.config.set_dtype_policy(policy)
    try:
        model = keras.Sequential(
            [
                layers.Dense(40, activation="relu"),
                layers.Dense(40, activation="relu"),
                layers.Dense(10),
                layers.Activation("softmax", dtype="float32"),
            ]
        )
    finally:
        keras.config.set_dtype_policy("float32")
    if case == "pure_bfloat16":
        opt = keras.optimizers.SGD(6e-4)
    elif case == "loss_scaled":
        opt = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(3e-3))
    elif case == "scale_too_low":
        opt = keras.optimizers.LossScaleOptimizer(
            keras.optimizers.Adam(3e-3), initial_scale=2.0**-30, dynamic_growth_steps=10_000
        )
    else:
        opt = keras.optimizers.Adam(3e-3)
    model.compile(opt, "sparse_categorical_crossentropy", auto_scale_loss=False)
    model.fit(x, data.y, batch_size=35, epochs=6, verbose=0, callbacks=run.callbacks())
    return accuracy(data.truth, np.asarray(model.predict(held, verbose=0), "float32"))
