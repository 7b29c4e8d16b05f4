"""Random loops with `tf.GradientTape`, eager and inside `tf.function`."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.keras.twins.layers import VECTOR, Lines, network
from tests.keras.twins.loops import Loop
from tests.keras.twins.programs import CLASSES

_TENSORFLOW = """
import keras, numpy as np, tensorflow as tf
from functools import partial
L = keras.layers
{classes}
def train(make, sees=False, change=lambda array: array):
    keras.utils.clear_session()
    keras.utils.set_random_seed(5)
    {network}
    model = keras.Model(i0, L.Dense({units}, {end!r})(t))
    for v in model.trainable_variables: v.assign(change(v.numpy()))
    optimizer = keras.optimizers.{optimizer}
    optimizer.build(model.trainable_variables)
    r = np.random.default_rng(2)
    x = tf.constant(r.normal(size=(8, 5)).astype('float32') * {scale})
    y = tf.constant({target})
    monitor = make and make()
    has_outputs = monitor is not None and sees
    weights = model.trainable_variables
    measure = monitor and partial(monitor.measure, parameters=weights)
    record = monitor and partial(monitor.record, variables=weights)
    def forward(tape):
        loss = tf.reduce_mean(keras.losses.{loss}(y, model(x, training=True)))
        return loss + sum(model.losses)
    def step():
        with tf.GradientTape() as tape:
            loss = forward(tape)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(grads, model.trainable_variables)
        return loss, grads
    def measured():
        if has_outputs:
            with monitor.outputs_of(model) as seen:
                loss, grads = step()
            return loss, grads, measure(gradients=grads, loss=loss, outputs=seen)
        loss, grads = step()
        return loss, grads, measure(gradients=grads, loss=loss)
    losses = []
    {loop}
    if monitor is not None: monitor.close()
    variables = [*model.variables, *optimizer.variables]
    return losses, {{f'{{i}} {{v.path}}': v.numpy() for i, v in enumerate(variables)}}
"""
_TENSORFLOW_LOOPS = {
    "tape": """
    for n in range(3):
        with (tf.GradientTape() if monitor is None else monitor.tape()) as tape:
            loss = forward(tape)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(grads, model.trainable_variables)
        losses.append(float(loss))
""",
    "record": """
    for n in range(3):
        if has_outputs:
            with monitor.outputs_of(model) as seen: loss, grads = step()
            record(gradients=grads, loss=loss, outputs=seen)
        else:
            loss, grads = step()
            if monitor: record(gradients=grads, loss=loss)
        losses.append(float(loss))
""",
    "function": """
    chosen = step if monitor is None else measured
    compiled = tf.function(chosen, jit_compile=False, autograph=False)
    for n in range(3):
        loss, grads, *readings = compiled()
        if readings: monitor.record(readings[0], step=n + 1)
        losses.append(float(loss))
""",
}
_IN_A_GRAPH = "jit_compile=False"
_TENSORFLOW_LOOPS["xla"] = _TENSORFLOW_LOOPS["function"].replace(_IN_A_GRAPH, "jit_compile=True")


@st.composite
def tensorflow_loops(draw: Any) -> Loop:
    lines = Lines(VECTOR, 5, ["i0 = keras.Input((5,))", "t = i0"])
    network(draw, lines, 3)
    way = draw(st.sampled_from(["tape", "record", "function", "function", "xla"]))
    units = draw(st.integers(2, 3))
    loss, end, target = draw(
        st.sampled_from(
            [
                ("mean_squared_error", "linear", f"r.normal(size=(8, {units})).astype('float32')"),
                (
                    "categorical_crossentropy",
                    "softmax",
                    f"np.eye({units}, dtype='float32')[r.integers(0, {units}, 8)]",
                ),
                ("sparse_categorical_crossentropy", "softmax", f"r.integers(0, {units}, 8)"),
                (
                    "binary_crossentropy",
                    "sigmoid",
                    f"r.integers(0, 2, (8, {units})).astype('float32')",
                ),
            ]
        )
    )
    body = _TENSORFLOW.format(
        classes=CLASSES,
        network="\n    ".join(lines.lines),
        units=units,
        end=end,
        loss=loss,
        target=target,
        scale=draw(st.sampled_from(["1.0", "1e-10", "40.0"])),
        optimizer=draw(
            st.sampled_from(
                [
                    "SGD(0.1)",
                    "SGD(0.1, momentum=0.9)",
                    "Adam(0.01)",
                    "Adam(0.01, clipnorm=0.1)",
                    "RMSprop(0.01)",
                    "Lion(0.01)",
                ]
            )
        ),
        loop=_TENSORFLOW_LOOPS[way].strip(),
    )
    return Loop(body, is_exact=way != "xla")
