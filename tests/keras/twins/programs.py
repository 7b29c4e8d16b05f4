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
    "binary": [
        "X.BinaryCrossentropy(from_logits=True)", "X.BinaryFocalCrossentropy(from_logits=True)",
    ],
    "one_hot_p": [
        "'categorical_crossentropy'", "X.CategoricalCrossentropy(label_smoothing=0.1)",
        "X.CategoricalFocalCrossentropy()", "X.CategoricalHinge()",
        "X.CategoricalGeneralizedCrossEntropy()",
    ],
    "one_hot": [
        "X.CategoricalCrossentropy(from_logits=True)",
        "X.CategoricalFocalCrossentropy(from_logits=True)",
    ],
    "class_p": [
        "'sparse_categorical_crossentropy'", "X.SparseCategoricalCrossentropy(ignore_class=0)",
    ],
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
    "", "", "", "{x} *= 1e-20", "{x} *= 1e20", "{x} *= 0", "{x}[0] = np.nan", "{x}[1] = np.inf",
    "{x} *= 30",
)  # fmt: skip
# What some weights are multiplied by.
_FACTORS = ("", "", "", "60.0", "1e-30", "1e10")
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
            weights = self.trainable_weights
            self.optimizer.apply([v.value.grad for v in weights], weights)
        for metric in self.metrics:
            metric.update_state(loss) if metric.name == "loss" else metric.update_state(y, p)
        return {m.name: m.result() for m in self.metrics}
""",
    "jax": """
    def compute_loss(self, *args, **kwargs):
        return super().compute_loss(*args, **kwargs) * 1.5
""",
}
CLASSES = '''
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
    inputs = [draw(st.sampled_from(_INPUTS)) for _ in range(draw(st.sampled_from([1, 1, 1, 2])))]
    heads = [_head(draw) for _ in range(draw(st.sampled_from([1, 1, 1, 2])))]
    # So that one batch is an epoch, and its loss in the history, where rounding may differ.
    batch = draw(st.sampled_from([4, 5, 8]))
    samples = batch if mode == "xla" else 8
    half = draw(st.sampled_from(["float32", "float32", "float32", *_HALVES]))
    body = [
        "keras.utils.clear_session()",
        "keras.utils.set_random_seed(7)",
        f"keras.config.set_dtype_policy({half!r})",
        *_model(draw, inputs, heads),
        "keras.config.set_dtype_policy('float32')",
        *_changed_weights(draw),
        f"model.compile({', '.join(_compiling(draw, backend, mode, heads))})",
        f"r, n = np.random.default_rng(1), {samples}",
        *_data(draw, inputs, heads),
        f"history = model.fit({', '.join(_fitting(draw, mode, batch, heads))})",
        "return model, history.history",
    ]
    text = "import keras, numpy as np\nL, O, X = keras.layers, keras.optimizers, keras.losses\n"
    text += CLASSES + "\nclass Own(keras.Model):" + _STEPS_OF_THEIR_OWN[backend]
    text += "\ndef train(callbacks):\n" + "".join(f"    {line}\n" for line in body)
    return Program(text, mode)


_HALVES = ("mixed_float16", "mixed_bfloat16")
_EMBEDDED = "(lambda i: (i, L.Embedding(7, 3{})(i)))(keras.Input((4,), dtype='int32'))"
_INPUTS = (
    ("keras.Input((5,))", VECTOR, 5),
    ("keras.Input((5,))", VECTOR, 5),
    ("keras.Input((4, 3))", SEQUENCE, 3),
    ("keras.Input((6, 6, 2))", IMAGE, 2),
    (_EMBEDDED.format(", mask_zero=True"), SEQUENCE, 3),
    (_EMBEDDED.format(""), SEQUENCE, 3),
)


@dataclass(frozen=True)
class _Head:
    """An output of a model, with its loss and target."""

    layers: str
    loss: str
    target: str


def _head(draw: Any) -> _Head:
    task = draw(st.sampled_from(list(_LOSSES)))
    units = 1 if task == "sign" else draw(st.integers(2, 4))
    end = draw(st.sampled_from(_ENDS.get(task, ["linear"])))
    ways = [
        f"L.Dense({units}, {end!r}, dtype='float32')(t)",
        f"L.Activation({end!r}, dtype='float32')(L.Dense({units})(t))",
    ]
    if end == "softmax":
        ways.append(f"L.Softmax(dtype='float32')({dense(draw, units)}(t))")
    if end in ("softmax", "sigmoid"):
        operation = f"L.Lambda(lambda x: keras.ops.{end}(x))"
        ways.append(f"{operation}(L.Dense({units}, dtype='float32')(t))")
    target = {
        "number": f"r.normal(size=(n, {units}))",
        "positive": f"r.uniform(0.1, 2, size=(n, {units}))",
        "sign": f"r.choice([-1.0, 1.0], size=(n, {units}))",
        "binary": f"r.integers(0, 2, size=(n, {units}))",
        "one_hot": f"np.eye({units})[r.integers(0, {units}, n)]",
        "class": f"r.integers(0, {units}, n)",
    }[task.removesuffix("_p")]
    loss = draw(st.sampled_from(_LOSSES[task]))
    return _Head(draw(st.sampled_from(ways)), loss, f"{target}.astype('float32')")


def _model(draw: Any, inputs: list[Any], heads: list[_Head]) -> list[str]:
    """The lines that build it."""
    lines: list[str] = []
    for i, (given, form, features) in enumerate(inputs):
        own = Lines(form, features, has_mask="mask_zero" in given)
        own.add(f"i{i}, t = {given}" if "Embedding" in given else f"i{i} = t = {given}")
        network(draw, own, 3 if len(inputs) == 1 else 2)
        lines += [*own.lines, f"t{i} = t"]
    if len(inputs) > 1:
        lines.append("t = L.Concatenate()([t0, t1])")
    lines += [f"o{i} = {head.layers}" for i, head in enumerate(heads)]
    name = "Own" if draw(st.integers(0, 5)) == 0 else "keras.Model"
    given = _one_or_list([f"i{i}" for i in range(len(inputs))])
    return [
        *lines,
        f"model = {name}({given}, {_one_or_list([f'o{i}' for i in range(len(heads))])})",
    ]


def _changed_weights(draw: Any) -> list[str]:
    factor = draw(st.sampled_from(_FACTORS))
    which = draw(st.sampled_from([-2, 0, -1]))
    if not factor:
        return []
    weight = f"model.trainable_variables[{which}]"
    return [f"if len(model.trainable_variables) > 1: {weight}.assign({weight} * {factor})"]


def _compiling(draw: Any, backend: str, mode: str, heads: list[_Head]) -> list[str]:
    """The arguments of `compile`."""
    optimizer = draw(st.sampled_from(_OPTIMIZERS)).format(lr=draw(st.sampled_from(_RATES)))
    options = draw(st.sampled_from(_OPTIONS))
    if "ScheduleFree" in optimizer and not ("clip" in options and "accum" not in options):
        options = ""
    if "AdamW" in optimizer and "weight_decay" in options:
        options = ""
    optimizer = f"O.{optimizer}{options})"
    if draw(st.integers(0, 7)) == 0 and not options:
        scaling = "initial_scale=1024.0, dynamic_growth_steps=2"
        optimizer = f"O.LossScaleOptimizer({optimizer}, {scaling})"
    losses = _one_or_list([head.loss for head in heads])
    how = {"eager": "run_eagerly=True", "graph": "jit_compile=False", "xla": "jit_compile=True"}
    arguments = [f"optimizer={optimizer}", f"loss={losses}", how[mode]]
    if draw(st.booleans()):
        measured = "metrics=['mae', keras.metrics.RootMeanSquaredError()]"
        arguments.append(measured if len(heads) == 1 else "loss_weights=[1.0, 0.3]")
    if mode == "graph" and backend == "tensorflow" and draw(st.integers(0, 5)) == 0:
        arguments.append("steps_per_execution=2")
    return arguments


def _data(draw: Any, inputs: list[Any], heads: list[_Head]) -> list[str]:
    lines = []
    for i, (given, form, _) in enumerate(inputs):
        shape = {VECTOR: "n, 5", SEQUENCE: "n, 4, 3", IMAGE: "n, 6, 6, 2"}[form]
        values = draw(st.sampled_from(_VALUES))
        if "Embedding" in given:
            lines.append(f"x{i} = r.integers(0, 7, (n, 4)).astype('int32')")
        else:
            lines.append(f"x{i} = r.normal(size=({shape})).astype('float32')")
            lines += [values.format(x=f"x{i}")] if values else []
    lines.append(f"x = {_one_or_list([f'x{i}' for i in range(len(inputs))])}")
    return [*lines, f"y = {_one_or_list([head.target for head in heads])}"]


def _fitting(draw: Any, mode: str, batch: int, heads: list[_Head]) -> list[str]:
    """The arguments of `fit`."""
    epochs = 3 if mode == "xla" else draw(st.integers(1, 2))
    arguments = ["x, y", f"batch_size={batch}", "verbose=0", "callbacks=callbacks"]
    arguments += [f"epochs={epochs}", f"shuffle={draw(st.booleans())}"]
    more = draw(st.sampled_from(["", "", "sample_weight", "class_weight", "validation_data"]))
    if more == "sample_weight":
        weights = _one_or_list(["r.uniform(0, 2, n).astype('float32')"] * len(heads))
        arguments.append(f"sample_weight={weights}")
    elif more == "class_weight" and len(heads) == 1 and heads[0].target.startswith("r.integers"):
        if "size" not in heads[0].target:
            arguments.append("class_weight={0: 0.5, 1: 2.0, 2: 1.0, 3: 0.0}")
    elif more == "validation_data":
        arguments.append("validation_data=(x, y)")
    return arguments


def _one_or_list(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"[{', '.join(items)}]"
