"""Random trainings with `fit`, as the source text of a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.keras.twins.layers import IMAGE, SEQUENCE, VECTOR, Lines, dense, network

# The outputs and targets that each loss is about. "p" ends in sigmoid or softmax.
_LOSSES = {
    "number": [
        "'mse'", "'mae'", "'mape'", "X.Huber(0.5)", "X.LogCosh()", "X.CosineSimilarity()",
        "X.MeanSquaredError(reduction='sum')",
    ],
    "positive": ["'msle'", "'poisson'", "X.KLDivergence()"],
    "sign": ["'hinge'", "'squared_hinge'"],
    "binary_p": [
        "'binary_crossentropy'", "X.BinaryCrossentropy(label_smoothing=0.1)",
        "X.BinaryFocalCrossentropy()", "X.Tversky()", "X.Dice()",
    ],
    "binary": ["X.BinaryCrossentropy(from_logits=True)", "X.BinaryFocalCrossentropy(from_logits=True)"],
    "one_hot_p": [
        "'categorical_crossentropy'", "X.CategoricalCrossentropy(label_smoothing=0.1)",
        "X.CategoricalFocalCrossentropy()", "X.CategoricalHinge()",
        "X.CategoricalGeneralizedCrossEntropy()",
    ],
    "one_hot": [
        "X.CategoricalCrossentropy(from_logits=True)",
        "X.CategoricalFocalCrossentropy(from_logits=True)",
    ],
    "class_p": ["'sparse_categorical_crossentropy'", "X.SparseCategoricalCrossentropy(ignore_class=0)"],
    "class": ["X.SparseCategoricalCrossentropy(from_logits=True)", "X.Circle()"],
}  # fmt: skip
_ENDS = {
    "positive": ["softplus", "relu"], "binary_p": ["sigmoid", "sigmoid", "hard_sigmoid"],
    "one_hot_p": ["softmax"], "class_p": ["softmax"],
}  # fmt: skip
_OPTIMIZERS = (
    "SGD({lr}", "SGD({lr}, momentum=0.9", "SGD({lr}, momentum=0.9, nesterov=True", "Adam({lr}",
    "Adam({lr}, amsgrad=True", "AdamW({lr}", "RMSprop({lr}", "RMSprop({lr}, centered=True",
    "Adagrad({lr}", "Adadelta({lr}", "Adamax({lr}", "Nadam({lr}", "Ftrl({lr}", "Lion({lr}",
    "Lamb({lr}", "Adafactor({lr}", "Muon({lr}", "ScheduleFreeAdamW({lr}",
)  # fmt: skip
_OPTIONS = (
    "", "", "", ", clipnorm=0.1", ", clipvalue=0.01", ", global_clipnorm=0.5", ", use_ema=True",
    ", use_ema=True, ema_overwrite_frequency=2", ", gradient_accumulation_steps=2",
    ", loss_scale_factor=8.0", ", weight_decay=0.01",
    ", gradient_accumulation_steps=2, clipnorm=0.1",
)  # fmt: skip
_RATES = (
    "0.1", "0.01", "1.0", "0.0", "O.schedules.ExponentialDecay(0.1, 2, 0.5)",
    "O.schedules.CosineDecay(0.1, 4, warmup_target=0.2, warmup_steps=2)",
)  # fmt: skip
# What a few of the inputs, or all of them, are.
_VALUES = (
    "",
    "",
    "",
    "x = x * 1e-20",
    "x = x * 1e20",
    "x = x * 0",
    "x[0] = np.nan",
    "x[1] = np.inf",
    "x = x * 30",
)
_WEIGHTS = (
    "", "", "",
    "model.trainable_variables[{i}].assign(model.trainable_variables[{i}] * 60.0)",
    "model.trainable_variables[{i}].assign(model.trainable_variables[{i}] * 1e-30)",
    "model.trainable_variables[{i}].assign(model.trainable_variables[{i}] * 1e10)",
)  # fmt: skip
_STEPS_OF_THEIR_OWN = {
    "tensorflow": """
    def train_step(self, data):
        import tensorflow as tf
        x, y, w = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            p = self(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=p, sample_weight=w)
        g = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(g, self.trainable_variables))
        for metric in self.metrics:
            metric.update_state(loss) if metric.name == "loss" else metric.update_state(y, p)
        return {m.name: m.result() for m in self.metrics}
""",
    "torch": """
    def train_step(self, data):
        import torch
        x, y, w = keras.utils.unpack_x_y_sample_weight(data)
        self.zero_grad()
        p = self(x, training=True)
        loss = self.compute_loss(x=x, y=y, y_pred=p, sample_weight=w)
        loss.backward()
        with torch.no_grad():
            self.optimizer.apply([v.value.grad for v in self.trainable_weights], self.trainable_weights)
        for metric in self.metrics:
            metric.update_state(loss) if metric.name == "loss" else metric.update_state(y, p)
        return {m.name: m.result() for m in self.metrics}
""",
    "jax": """
    def compute_loss(self, *args, **kwargs):
        return super().compute_loss(*args, **kwargs) * 1.5
""",
}
_CLASSES = '''
class Gate(L.Layer):
    """Layers inside of a layer, called more than once."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.inner = L.Dense(units, "tanh")
        self.gate = L.Dense(units, "sigmoid")
        self.noise = L.GaussianDropout(0.2)

    def call(self, x, training=None):
        return self.inner(x) * self.gate(x) + self.noise(self.inner(-x), training=training)


class Probabilities(L.Layer):
    """A softmax by hand, of which Keras knows by the operation alone."""

    def call(self, x):
        return keras.ops.softmax(x, axis=-1)
'''


@dataclass(frozen=True)
class Program:
    """A training as source text: a function `train(callbacks)`."""

    body: str
    mode: str
    """How the step is run: eager, graph or xla."""

    def __str__(self) -> str:
        return self.body


@st.composite
def programs(draw: Any, backend: str, modes: tuple[str, ...]) -> Program:
    """A training on a Keras backend.

    Args:
        draw: Hypothesis's.
        backend: its name.
        modes: the ways of running a step to choose from.
    """
    mode = draw(st.sampled_from(modes))
    inputs = [draw(_inputs()) for _ in range(draw(st.sampled_from([1, 1, 1, 2])))]
    lines: list[str] = []
    for i, (given, form, features) in enumerate(inputs):
        lines.append(f"i{i} = {given}")
        own = Lines(form, features, has_mask="mask_zero" in given)
        own.add(f"t = i{i}" if "Embedding" not in given else f"i{i}, t = i{i}")
        network(draw, own, 3 if len(inputs) == 1 else 2)
        lines += [*own.lines, f"t{i} = t"]
    width = own.features
    if len(inputs) > 1:
        lines.append("t = L.Concatenate()([t0, t1])")
    heads = draw(st.sampled_from([1, 1, 1, 2]))
    targets, losses = [], []
    for i in range(heads):
        task = draw(st.sampled_from(list(_LOSSES)))
        units = 1 if task == "sign" else draw(st.integers(2, 4))
        loss = draw(st.sampled_from(_LOSSES[task]))
        if "hinge" in loss.lower() and task == "one_hot_p":
            units = 3
        end = draw(st.sampled_from(_ENDS.get(task, ["linear"])))
        lines.append(_head(draw, i, units, end))
        targets.append(_target(task, units))
        losses.append(loss)
    name = "Own" if draw(st.integers(0, 5)) == 0 else "keras.Model"
    ins = "[" + ", ".join(f"i{i}" for i in range(len(inputs))) + "]" if len(inputs) > 1 else "i0"
    outs = "[" + ", ".join(f"o{i}" for i in range(heads)) + "]" if heads > 1 else "o0"
    lines.append(f"model = {name}({ins}, {outs})")
    return Program(_source(draw, backend, mode, lines, inputs, targets, losses, width), mode)


def _inputs() -> Any:
    return st.sampled_from(
        [
            ("keras.Input((5,))", VECTOR, 5),
            ("keras.Input((5,))", VECTOR, 5),
            ("keras.Input((4, 3))", SEQUENCE, 3),
            ("keras.Input((6, 6, 2))", IMAGE, 2),
            (
                "(lambda i: (i, L.Embedding(7, 3, mask_zero=True)(i)))(keras.Input((4,), dtype='int32'))",
                SEQUENCE,
                3,
            ),
            (
                "(lambda i: (i, L.Embedding(7, 3)(i)))(keras.Input((4,), dtype='int32'))",
                SEQUENCE,
                3,
            ),
        ]
    )


def _head(draw: Any, i: int, units: int, end: str) -> str:
    how = draw(st.integers(0, 3))
    if how == 0:
        return f"o{i} = L.Activation({end!r}, dtype='float32')(L.Dense({units})(t))"
    if how == 1 and end == "softmax":
        return f"o{i} = L.Softmax(dtype='float32')({dense(draw, units)}(t))"
    if how == 2 and end in ("softmax", "sigmoid"):
        return (
            f"o{i} = L.Lambda(lambda x: keras.ops.{end}(x))(L.Dense({units}, dtype='float32')(t))"
        )
    return f"o{i} = L.Dense({units}, {end!r}, dtype='float32')(t)"


def _target(task: str, units: int) -> str:
    return {
        "number": f"r.normal(size=(n, {units}))",
        "positive": f"r.uniform(0.1, 2, size=(n, {units}))",
        "sign": f"r.choice([-1.0, 1.0], size=(n, {units}))",
        "binary_p": f"r.integers(0, 2, size=(n, {units}))",
        "binary": f"r.integers(0, 2, size=(n, {units}))",
        "one_hot_p": f"np.eye({units})[r.integers(0, {units}, n)]",
        "one_hot": f"np.eye({units})[r.integers(0, {units}, n)]",
        "class_p": f"r.integers(0, {units}, n)",
        "class": f"r.integers(0, {units}, n)",
    }[task] + ".astype('float32')"


def _source(
    draw: Any,
    backend: str,
    mode: str,
    lines: list[str],
    inputs: list[Any],
    targets: list[str],
    losses: list[str],
    width: int,
) -> str:
    half = draw(st.sampled_from(["", "", "", "mixed_float16", "mixed_bfloat16"]))
    optimizer = draw(st.sampled_from(_OPTIMIZERS)).format(lr=draw(st.sampled_from(_RATES)))
    options = draw(st.sampled_from(_OPTIONS))
    if "ScheduleFree" in optimizer:
        options = options if "clip" in options and "accum" not in options else ""
    if "AdamW" in optimizer and "weight_decay" in options:
        options = ""
    built = f"O.{optimizer}{options})"
    if draw(st.integers(0, 7)) == 0 and not options:
        built = f"O.LossScaleOptimizer({built}, initial_scale=1024.0, dynamic_growth_steps=2)"
    one = len(targets) == 1
    compiled = [f"optimizer={built}", f"loss={losses[0] if one else '[' + ', '.join(losses) + ']'}"]
    compiled += {
        "eager": ["run_eagerly=True"],
        "graph": ["jit_compile=False"],
        "xla": ["jit_compile=True"],
    }[mode]
    if one and draw(st.booleans()):
        compiled.append("metrics=['mae', keras.metrics.RootMeanSquaredError()]")
    if not one and draw(st.booleans()):
        compiled.append("loss_weights=[1.0, 0.3]")
    if mode == "graph" and backend == "tensorflow" and draw(st.integers(0, 5)) == 0:
        compiled.append("steps_per_execution=2")
    batch = draw(st.sampled_from([4, 5, 8]))
    n = 8 if mode != "xla" else batch
    fitted = ["x, y", f"batch_size={batch}", "verbose=0", "callbacks=callbacks"]
    fitted.append(f"epochs={draw(st.integers(1, 2)) if mode != 'xla' else 3}")
    fitted.append(f"shuffle={draw(st.booleans())}")
    more = draw(st.sampled_from(["", "", "w", "c", "v"]))
    if more == "w":
        weights = "r.uniform(0, 2, n).astype('float32')"
        fitted.append(f"sample_weight={weights if one else f'[{weights}, {weights}]'}")
    elif more == "c" and one and "r.integers" in targets[0] and "size" not in targets[0]:
        fitted.append("class_weight={0: 0.5, 1: 2.0, 2: 1.0, 3: 0.0}")
    elif more == "v":
        fitted.append("validation_data=(x, y)")
    data = []
    for i, (given, form, features) in enumerate(inputs):
        shape = {VECTOR: "n, 5", SEQUENCE: "n, 4, 3", IMAGE: "n, 6, 6, 2"}[form]
        drawn = "r.integers(0, 7, (n, 4))" if "Embedding" in given else f"r.normal(size=({shape}))"
        data.append(f"x = {drawn}.astype('{'int32' if 'Embedding' in given else 'float32'}')")
        values = draw(st.sampled_from(_VALUES))
        if values and "Embedding" not in given:
            data.append(values)
        data.append(f"x{i} = x")
    data.append("x = x0" if len(inputs) == 1 else "x = [x0, x1]")
    data.append("y = " + (targets[0] if one else "[" + ", ".join(targets) + "]"))
    scaled = draw(st.sampled_from(_WEIGHTS)).format(i=draw(st.sampled_from([-2, 0, -1])))
    body = [
        "keras.utils.clear_session()",
        "keras.utils.set_random_seed(7)",
        f"keras.config.set_dtype_policy({half or 'float32'!r})",
        *lines,
        "keras.config.set_dtype_policy('float32')",
        *([f"if model.trainable_variables: {scaled}"] if scaled else []),
        f"model.compile({', '.join(compiled)})",
        f"r, n = np.random.default_rng(1), {n}",
        *data,
        f"history = model.fit({', '.join(fitted)})",
        "return model, history.history",
    ]
    own = "\nclass Own(keras.Model):" + _STEPS_OF_THEIR_OWN[backend]
    head = "import keras, numpy as np\nL, O, X = keras.layers, keras.optimizers, keras.losses\n"
    return f"{head}{_CLASSES}{own}\ndef train(callbacks):\n" + "".join(f"    {s}\n" for s in body)
