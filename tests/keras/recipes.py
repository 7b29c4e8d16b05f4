"""Running the recipes in docs/recipes, and the truth that they are held to."""

from __future__ import annotations

import csv
import itertools
import re
from pathlib import Path
from typing import Any

import keras
import numpy as np

import gradwatch
from tests.keras.support import StatesOfSteps, normal

DIRECTORY = Path(__file__).parents[2] / "docs" / "recipes"
RATE = 0.5
BATCH = 8
STEPS = 10


def code_of(number: int) -> str:
    """The code of the recipe with that number."""
    (file,) = DIRECTORY.glob(f"{number:02d}-*.md")
    (code,) = re.findall(r"```python\n(.*?)```", file.read_text(), re.DOTALL)
    return code


def compiled(*layers: Any, loss: str = "mse") -> Any:
    """A model of these layers, trained by plain gradient descent.

    There, a step's gradient is the change of the weights over the learning rate,
    which is how the truth is found without differentiating anything.
    """
    model = keras.Sequential(layers, name="net")
    model.compile(keras.optimizers.SGD(RATE), loss)
    return model


class Truth:
    """The values of variables before and after each step, in float64."""

    def __init__(self, steps: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
        self._steps = steps

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def paths(self) -> list[str]:
        return list(self._steps[0][0])

    def weight(self, path: str, step: int) -> np.ndarray:
        """The value after the step, which is counted from 1."""
        return self._steps[step - 1][1][path]

    def gradient(self, path: str, step: int) -> np.ndarray:
        before, after = self._steps[step - 1]
        return (before[path] - after[path]) / RATE


def run_fit(number: int, model: Any, x: Any, y: Any) -> Truth:
    """Run a recipe that calls `model.fit`, with the states of all steps kept."""
    states = StatesOfSteps()
    fit = model.fit

    def watched_fit(*args: Any, callbacks: Any = (), **options: Any) -> Any:
        return fit(*args, callbacks=[*callbacks, states], batch_size=BATCH, verbose=0, **options)

    vars(model)["fit"] = watched_fit
    exec(code_of(number), {"model": model, "x": x, "y": y})
    paths = {v.path: i for i, v in enumerate(model.variables) if v.path.startswith("net/")}
    return Truth(
        [
            tuple(
                {path: state.values[i].astype(np.float64) for path, i in paths.items()}
                for state in pair
            )
            for pair in zip(states.before, states.after, strict=True)
        ]
    )


def run_loop(number: int, variables: dict[str, Any], batches: list[Any], **names: Any) -> Truth:
    """Run a recipe that loops over `dataset`, with the values at each turn kept."""
    import tensorflow as tf

    seen: list[dict[str, Any]] = []

    def look() -> None:
        seen.append({path: np.asarray(v).astype(np.float64) for path, v in variables.items()})

    def dataset() -> Any:
        for batch in batches:
            look()
            yield batch
        look()

    optimizer = keras.optimizers.SGD(RATE)
    loss_fn = keras.losses.MeanSquaredError()
    exec(
        code_of(number),
        {"tf": tf, "optimizer": optimizer, "loss_fn": loss_fn, "dataset": dataset(), **names},
    )
    return Truth(list(itertools.pairwise(seen)))


def batches_for(model: Any, targets: int, count: int = STEPS) -> list[tuple[Any, Any]]:
    """Batches that suit a model, as tensors."""
    shape = model.input_shape[1:]
    return [
        (
            keras.ops.convert_to_tensor(normal(BATCH, *shape, seed=i)),
            keras.ops.convert_to_tensor(normal(BATCH, targets, seed=100 + i)),
        )
        for i in range(count)
    ]


def table(run: str) -> list[dict[str, str]]:
    """The rows of a run's CSV file or, without one, of its store."""
    path = Path("runs", run, "summaries.csv")
    if not path.exists():
        result = gradwatch.open(f"runs/{run}").sql("select * from summaries order by step, path")
        return [
            {name: str(value) for name, value in zip(result.columns, row, strict=True)}
            for row in result.fetchall()
        ]
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def events(run: str) -> Any:
    """A run's event files, as TensorBoard itself reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    everything = {"histograms": 0, "scalars": 0, "images": 0}
    return EventAccumulator(str(Path("runs", run)), size_guidance=everything).Reload()
