"""Plants NaN in trainings of Keras, and asks the default monitor where it began.

Each training runs bare and with `Monitor(dir)`. The finding must name the step and the tensor that
the NaN was planted in, and all variables must be equal, bit by bit, afterwards.

    KERAS_BACKEND=jax python benchmarks/planted_nans.py [--only NAME] [--steps 23,137]
"""

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from keras import ops

import gradwatch
from gradwatch.diagnosis import diagnose
from gradwatch.sinks import pipeline

BATCH, FEATURES = 16, 12
PER_EPOCH = 60


class Counting(keras.layers.Layer):
    """Counts its calls in training, and does something at one of them."""

    def __init__(self, at: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.at = at

    def build(self, shape: Any) -> None:
        self.count = self.add_weight(shape=(), dtype="int32", trainable=False, name="count")

    def call(self, x: Any, training: bool = False) -> Any:
        if not training:
            return x
        self.count.assign(self.count + 1)
        return self.act(x, ops.cast(ops.equal(self.count.value, self.at), x.dtype))

    def act(self, x: Any, now: Any) -> Any:
        raise NotImplementedError


class LogOfZero(Counting):
    def act(self, x: Any, now: Any) -> Any:
        return x + 0 * ops.log(1 - now)


class RootOfZero(Counting):
    """Finite forwards, NaN backwards."""

    def act(self, x: Any, now: Any) -> Any:
        return x + ops.sqrt(ops.square(x) * (1 - now)) * 0.01


class UnluckyDraw(keras.layers.Layer):
    """Divides by 0 when its random numbers, of a seed generator, are rare ones."""

    def __init__(self, chance: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.chance = chance
        self.seeds = keras.random.SeedGenerator(5)

    def call(self, x: Any, training: bool = False) -> Any:
        draw = keras.random.uniform((), seed=self.seeds)
        rare = ops.cast(draw < self.chance, x.dtype)
        return x + 0 / (1 - rare) if training else x


class BadUpdate(keras.optimizers.Adam):
    """Makes the update of one variable NaN at one iteration."""

    def __init__(self, at: int, path: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.at, self.bad_path = at, path

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        super().update_step(gradient, variable, learning_rate)
        if self.bad_path in getattr(variable, "path", variable.name):
            now = ops.cast(ops.equal(self._iterations.value, self.at - 1), variable.dtype)
            variable.assign(variable + 0 / (1 - now))


class BadRate(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, step: Any) -> Any:
        now = ops.cast(ops.equal(step, self.at - 1), "float32")
        return 0.001 / (1 - now)

    def get_config(self) -> dict[str, Any]:
        return {"at": self.at}


@dataclass(frozen=True)
class Plant:
    name: str
    kind: str
    """Of the first bad tensor."""
    path: str
    """Contained in its path."""
    layer: Callable[[int], Any] | None = None
    optimizer: Callable[[int], Any] = lambda at: keras.optimizers.Adam(0.01)
    data: str = ""
    """Which part of the batch is bad."""


PLANTS = [
    Plant("nan in the input", "input", "", data="x"),
    Plant("nan in the targets", "target", "", data="y"),
    Plant("nan in the sample weights", "loss", "", data="w"),
    Plant("log of 0 in a layer", "output", "trap", lambda at: LogOfZero(at, name="trap")),
    Plant("root of 0 backwards", "gradient", "first", lambda at: RootOfZero(at, name="trap")),
    Plant(
        "an optimizer's update",
        "update",
        "second/kernel",
        optimizer=lambda at: BadUpdate(at, "second/kernel"),
    ),
    Plant(
        "a learning rate of infinity",
        "update",
        "first",
        optimizer=lambda at: keras.optimizers.SGD(BadRate(at)),
    ),
    Plant("an unlucky draw", "output", "trap", lambda at: UnluckyDraw(1 / at, name="trap")),
]
FORMS = ["arrays", "weighted", "generator", "reused", "dataset", "dict"]


def model_of(plant: Plant, at: int, convolutional: bool, jit: Any, executions: int) -> Any:
    keras.utils.set_random_seed(1)
    inputs = x = keras.Input((FEATURES,), name="features")
    if convolutional:
        x = keras.layers.Reshape((FEATURES, 1))(x)
        x = keras.layers.Conv1D(4, 3, activation="relu", name="first")(x)
        x = keras.layers.BatchNormalization(name="norm")(x)
        x = keras.layers.Flatten()(x)
    else:
        x = keras.layers.Dense(16, activation="tanh", name="first")(x)
    if plant.layer is not None:
        x = plant.layer(at)(x)
    x = keras.layers.Dense(8, activation="relu", name="second")(x)
    x = keras.layers.Dropout(0.2, seed=3)(x)
    model = keras.Model(inputs, keras.layers.Dense(1, name="third")(x))
    model.compile(
        plant.optimizer(at),
        "mse",
        metrics=["mae"],
        weighted_metrics=[],
        jit_compile=jit,
        steps_per_execution=executions,
    )
    return model


def arrays(plant: Plant, at: int, steps: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(steps * BATCH, FEATURES)).astype("float32")
    y = x[:, :1] * 2 + x[:, 1:2]
    w = np.ones(len(x), "float32")
    bad = (at - 1) * BATCH + 3
    if plant.data:
        {"x": x, "y": y, "w": w}[plant.data][bad] = np.nan
    return x, y, w


class Batches(keras.utils.PyDataset):
    """Batches in arrays of their own, or all in the same ones."""

    def __init__(self, x: Any, y: Any, w: Any, *, reuse: bool, as_dict: bool) -> None:
        super().__init__()
        self.parts, self.reuse, self.as_dict = (x, y, w), reuse, as_dict
        self.buffers = [np.empty_like(part[:BATCH]) for part in self.parts]

    def __len__(self) -> int:
        return len(self.parts[0]) // BATCH

    def __getitem__(self, i: int) -> Any:
        cut = [part[i * BATCH : (i + 1) * BATCH] for part in self.parts]
        if self.reuse:
            for buffer, part in zip(self.buffers, cut, strict=True):
                buffer[:] = part
            cut = self.buffers
        return ({"features": cut[0]} if self.as_dict else cut[0], *cut[1:])


def stream(parts: Any) -> Iterator[Any]:
    for start in range(0, len(parts[0]), BATCH):
        yield tuple(part[start : start + BATCH] for part in parts)


def train(model: Any, form: str, parts: Any, callbacks: Any) -> list[Any]:
    x, y, w = parts
    how: dict[str, Any] = {"verbose": 0, "callbacks": callbacks}
    if form == "arrays":
        model.fit(x, y, sample_weight=w, batch_size=BATCH, shuffle=False, **how)
    elif form == "weighted":
        model.fit(x, y, sample_weight=w[:, None], batch_size=BATCH, shuffle=False, **how)
    elif form == "generator":
        epochs = len(x) // BATCH // PER_EPOCH
        model.fit(stream(parts), steps_per_epoch=PER_EPOCH, epochs=epochs, **how)
    elif form == "dataset":
        import tensorflow as tf

        model.fit(tf.data.Dataset.from_tensor_slices(parts).batch(BATCH), **how)
    else:
        data = Batches(x, y, w, reuse=form == "reused", as_dict=form == "dict")
        model.fit(data, shuffle=False, **how)
    named = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
    return [ops.convert_to_numpy(v.value) for v in named]


def first_finding(findings: Any) -> tuple[str, str]:
    found = [f for f in findings if f.rule == "non-finite"]
    return (found[0].title, str(found[0].sites[0])) if found else ("nothing", "")


def is_equal(a: Any, b: Any) -> bool:
    """Bit by bit, but any NaN is as good as another."""
    if np.issubdtype(a.dtype, np.floating):
        a, b = (np.where(np.isnan(x), np.nan, x) for x in (a, b))
    return bool(a.tobytes() == b.tobytes())


def check(plant: Plant, at: int, form: str, number: int) -> tuple[bool, bool, str]:
    """Whether the first tensor was named, whether training was the same, and the words."""
    backend = keras.backend.backend()
    convolutional = number % 2 == 1
    jit = backend == "jax" or (backend == "tensorflow" and number % 3 == 1)
    executions = 4 if backend == "jax" and number % 5 == 4 else 1
    steps = -(-(at + 40) // PER_EPOCH) * PER_EPOCH
    parts = arrays(plant, at, steps)
    results = []
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        monitor = gradwatch.Monitor(Path(folder) / "run")
        for callbacks in ([], [monitor]):
            model = model_of(plant, at, convolutional, jit, executions)
            results.append(train(model, form, parts, callbacks))
        title, site = first_finding(monitor.findings)
        again, _ = first_finding(diagnose(gradwatch.open(Path(folder) / "run")).findings)
        is_agreed = title == again
        if plant.name == "an unlucky draw":
            model = model_of(plant, at, convolutional, jit, executions)
            truth = gradwatch.Monitor(Path(folder) / "all", every=1)
            train(model, form, parts, [truth])
            is_right = title == first_finding(truth.findings)[0]
        else:
            is_right = f"in step {at}, first in" in title
        kind, _, path = site.partition(" ")
        # In steps on torch that are not measured, it is the weight that shows an update.
        kinds = [plant.kind, f"output_{plant.kind}"]
        kinds += ["weight"] if backend == "torch" and plant.kind == "update" else []
        is_right &= kind in kinds and plant.path in path
    bare, watched = results
    is_same = all(map(is_equal, bare, watched))
    how = f"{form}{', conv' if convolutional else ''}{', jit' if jit else ''}"
    how += f", {executions} at once" if executions > 1 else ""
    title += "" if is_agreed else f" BUT AFTERWARDS {again}"
    return bool(is_right) and is_agreed, is_same, f"{how}: {title}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--steps", default="23,60,61,137")
    options = parser.parse_args()
    # On a busy machine, what is not written in time would count as missed.
    pipeline.CLOSING_TIME = 60.0
    right = same = count = 0
    for i, at in enumerate(map(int, options.steps.split(","))):
        for j, plant in enumerate(PLANTS):
            if options.only not in plant.name:
                continue
            number = i * len(PLANTS) + j
            form = FORMS[number % len(FORMS)]
            if form == "reused" and keras.backend.backend() == "tensorflow":
                form = "arrays"  # tf.data reads ahead, and finds what was overwritten.
            is_right, is_same, words = check(plant, at, form, number)
            right, same, count = right + is_right, same + is_same, count + 1
            marks = f"{'named' if is_right else 'MISSED'} {'same' if is_same else 'CHANGED'}"
            print(f"{marks} | {plant.name} at {at} | {words}", flush=True)
    print(f"{keras.backend.backend()}: {right} of {count} named, {same} bit-identical")
    sys.exit(right < count or same < count)


if __name__ == "__main__":
    main()
