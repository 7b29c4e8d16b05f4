"""The training of `gradwatch demo`: a small network that reads digits which are drawn here.

The watches and sinks are chosen so that every part of the viewer has data to show.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.record import Monitor
from gradwatch.sinks import CSV, PNG, Console, Store, TensorBoard
from gradwatch.watches import (
    gradients,
    losses,
    output_gradients,
    outputs,
    pictures,
    scalars,
    updates,
    weights,
)

# One digit a line, one row of five pixels a byte, from top to bottom.
_GLYPHS = """
0E 11 13 15 19 11 0E
04 0C 04 04 04 04 0E
0E 11 01 02 04 08 1F
1F 02 04 02 01 11 0E
02 06 0A 12 1F 02 02
1F 10 1E 01 01 11 0E
06 08 10 1E 11 11 0E
1F 01 02 04 08 08 08
0E 11 11 0E 11 11 0E
0E 11 11 0F 01 02 0C
""".strip().splitlines()


def draw(count: int, seed: int = 1) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Images (count, 8, 8, 1) of digits at random places, faint and noisy, and what they show.

    Example:

    >>> from gradwatch.digits import draw
    >>> images, labels = draw(1800)
    >>> images.shape, sorted(set(labels.tolist()))
    ((1800, 8, 8, 1), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    random = np.random.default_rng(seed)
    rows = np.array([list(bytes.fromhex(line)) for line in _GLYPHS], np.uint8)
    glyphs = np.unpackbits(rows[:, :, None], axis=2)[:, :, 3:]
    labels = random.integers(10, size=count)
    images = random.normal(0.0, 0.25, (count, 8, 8, 1))
    places = random.integers([2, 4], size=(count, 2))
    inks = random.uniform(0.5, 1.0, count)
    for image, label, (top, left), ink in zip(images, labels, places, inks, strict=True):
        image[top : top + 7, left : left + 5, 0] += ink * glyphs[label]
    return images.astype(np.float32), labels


def network() -> Any:
    """The network, compiled. Keras is imported here, so set its backend before."""
    import keras

    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(32, 3, padding="same", activation="relu", name="conv1"),
            layers.Conv2D(64, 3, padding="same", activation="relu", name="conv2"),
            layers.Flatten(),
            layers.Dropout(0.3),
            layers.Dense(64, activation="relu", name="dense"),
            layers.Dense(10, name="logits"),
        ],
        name="digits",
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    return model


def train(directory: Path, epochs: int = 4) -> Path:
    """Train the network under a monitor; the directory of the run, which is new if it was there."""
    import keras

    keras.utils.set_random_seed(1)
    images, labels = draw(1800)
    monitor = Monitor(
        directory,
        every=5,
        watch=[
            gradients(histogram="epoch"),
            weights(histogram="epoch"),
            updates(),
            outputs(histogram="epoch", per_unit=True),
            output_gradients(),
            pictures("conv1/kernel"),
            losses(),
            scalars(),  # the learning rate and the batch size
        ],
        sinks=[Store(), TensorBoard(), CSV(), Console(), PNG()],
    )
    fit = {"batch_size": 32, "epochs": epochs, "validation_split": 0.2, "verbose": 2}
    network().fit(images, labels, callbacks=[monitor], **fit)
    monitor.close()
    return Path(monitor.directory)
