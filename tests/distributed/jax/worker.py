"""One of two processes that train together, with two devices each.

python -m tests.distributed.jax.worker <rank> <address> <folder> <what>

It writes what its trainings ended with to `<folder>/<rank>.npz`, and what gradwatch said, for each
training, to `<folder>/<rank>.json`.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax

PROCESSES = 2
AFTER = 2
"""The step after which a process is killed, where one is."""


class Trainings:
    """The trainings of this process, one after the other."""

    def __init__(self, rank: int, folder: Path) -> None:
        self.rank, self.folder = rank, folder
        self.weights: dict[str, Any] = {}
        self.said: dict[str, list[str]] = {}

    def run(self, name: str, train: Callable[[], list[Any]]) -> None:
        """Train, and note what comes of it."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for i, w in enumerate(train()):
                self.weights[f"{name}/{i}"] = w
        self.said[name] = [str(w.message) for w in caught if "Gradwatch" in w.category.__name__]

    def write(self) -> None:
        """Leave it for the test to read."""
        import numpy as np

        np.savez(self.folder / f"{self.rank}.npz", **self.weights)
        (self.folder / f"{self.rank}.json").write_text(json.dumps(self.said))


def trainings_of_all(trainings: Trainings) -> None:
    """With monitors on all processes, on none, and in all the ways in which they may differ."""
    import keras

    import gradwatch
    from gradwatch import agreement
    from tests.distributed.jax.models import BATCH, MODELS
    from tests.distributed.jax.training import fit

    rank, folder = trainings.rank, trainings.folder
    agreement.PATIENCE = 2.0
    devices = keras.distribution.list_devices()
    distribution = keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False)
    half = BATCH // PROCESSES
    part = slice(rank * half, (rank + 1) * half)
    plain, batch_norm = MODELS["plain"](), MODELS["batch_norm"]()

    def monitor(name: str, every: int = 1) -> Any:
        store = gradwatch.Store()
        return gradwatch.Monitor(folder / name, every=every, sinks=[store])

    def train(name: str, model: Any, *callbacks: Any) -> None:
        trainings.run(name, lambda: fit(model, callbacks, distribution, part))

    train("bare", batch_norm)
    train("watched", batch_norm, monitor("watched"))
    train("bare_plain", plain)
    (folder / "a_file").touch()
    train("unwritable", plain, monitor("a_file/run" if rank == 0 else "fine"))
    trainings.run("loop", lambda: loop(monitor("loop")))
    train("differing", plain, monitor("differing", every=1 + rank))
    # Last: from then on, the processes have not asked equally often.
    train("alone", plain, *([monitor("alone")] if rank == 0 else []))


def loop(monitor: Any) -> list[Any]:
    """A loop of one's own over arrays that lie on the devices of both processes."""
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec

    axes = (jax.sharding.AxisType.Auto,)
    mesh = jax.make_mesh((4,), ("data",), axis_types=axes)
    divided = NamedSharding(mesh, PartitionSpec("data"))
    values = np.arange(32, dtype="float32").reshape(8, 4)
    w = jax.make_array_from_callback((8, 4), divided, lambda at: values[at])

    @jax.jit
    def step(w: Any) -> Any:
        grad = jax.grad(lambda w: (w**2).sum())(w)
        after = w - 0.125 * grad
        return after, monitor.measure(gradients={"w": grad}, parameters={"w": after})

    for i in range(1, 4):
        w, readings = step(w)
        monitor.record(readings, step=i)
    monitor.record(gradients={"w": w}, variables={"w": w}, step=4)
    monitor.close()
    return []


def killed(trainings: Trainings) -> None:
    """The second process is killed within a fit."""
    import keras

    import gradwatch
    from tests.distributed.jax.models import BATCH, MODELS
    from tests.distributed.jax.training import fit

    rank, folder = trainings.rank, trainings.folder

    class Killed(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if rank == 1 and batch + 1 == AFTER:
                float(logs["loss"])  # Waits for the step.
                os._exit(9)

    devices = keras.distribution.list_devices()
    distribution = keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False)
    half = BATCH // PROCESSES
    monitor = gradwatch.Monitor(folder / "run", every=1, sinks=[gradwatch.Store()])
    part = slice(rank * half, (rank + 1) * half)
    fit(MODELS["plain"](), [monitor, Killed()], distribution, part)


def main() -> None:
    rank, address, folder, what = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # So that a process that is killed is missed soon.
    jax.distributed.initialize(address, PROCESSES, rank, heartbeat_timeout_seconds=10)
    trainings = Trainings(rank, folder)
    {"all": trainings_of_all, "killed": killed}[what](trainings)
    trainings.write()


if __name__ == "__main__":
    main()
