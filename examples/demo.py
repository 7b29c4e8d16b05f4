"""Train a small convolutional network on scikit-learn's digits with a monitor.

The watches and sinks are chosen so that every part of the viewer has data to show.
"""

import os
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
from sklearn.datasets import load_digits

import gradwatch

keras.utils.set_random_seed(1)
images, labels = load_digits(return_X_y=True)
images = images.reshape(-1, 8, 8, 1).astype("float32") / 16

model = keras.Sequential(
    [
        keras.Input((8, 8, 1)),
        keras.layers.Conv2D(32, 3, padding="same", activation="relu", name="conv1"),
        keras.layers.Conv2D(64, 3, padding="same", activation="relu", name="conv2"),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(64, activation="relu", name="dense"),
        keras.layers.Dense(10, name="logits"),
    ],
    name="digits",
)
model.compile(
    optimizer="adam",
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)

monitor = gradwatch.Monitor(
    "runs/demo",
    every=5,
    watch=[
        gradwatch.gradients(histogram="epoch"),
        gradwatch.weights(histogram="epoch"),
        gradwatch.updates(),
        gradwatch.outputs(histogram="epoch", per_unit=True),
        gradwatch.output_gradients(),
        gradwatch.pictures("conv1/kernel"),
        gradwatch.losses(),
        gradwatch.scalars(),  # the learning rate and the batch size
    ],
    sinks=[
        gradwatch.Store(),
        gradwatch.TensorBoard(),
        gradwatch.CSV(),
        gradwatch.Console(),
        gradwatch.PNG(),
    ],
)
model.fit(
    images,
    labels,
    batch_size=32,
    epochs=4,
    validation_split=0.2,
    callbacks=[monitor],
    verbose=2,
)

run = monitor.directory
report = gradwatch.report(run, "report.html")
size = sum(f.stat().st_size for f in Path(run).rglob("*") if f.is_file())
print(f"\nThe run is in {run} ({size / 1e3:.0f} kB). Ways to look at it:\n")
for what, why in {
    f"{report}": "the run in one file, to open in a browser or to send",
    ".venv/bin/gradwatch view runs": "all runs in the browser: every layer at every step",
    f".venv/bin/gradwatch top {run}": "the run in the terminal, updated during training",
    f".venv/bin/gradwatch show {run}": "a table of the layers, with their gradients over time",
    f".venv/bin/gradwatch diagnose {run}": "what is wrong, where, and what to do",
    ".venv/bin/tensorboard --logdir runs": "norms and histograms over time in TensorBoard",
    f"gradwatch.open({str(run)!r})": "the run in Python: series, histograms, SQL, data frames",
    f"{run}/summaries.csv": "the numbers as one table",
    f"{run}/pictures": "the kernels of the first layer after each epoch",
    f"{run}/run.json": "what was watched, and what each number means",
}.items():
    print(f"  {what:40} {why}")
