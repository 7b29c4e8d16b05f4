"""One of two processes that train together, with two devices each.

python -m tests.distributed.jax.worker <rank> <address> <folder> <what>

It writes what its trainings ended with to `<folder>/<rank>.npz`, and what gradwatch said, for each
training, to `<folder>/<rank>.json`.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.distributed.launching import FULL, xla_flags

os.environ["XLA_FLAGS"] = xla_flags(devices=2)

import jax

import gradwatch
from tests.distributed.patience import PATIENCE, be_patient, until, until_written

PROCESSES = 2
AFTER = 2
"""The step after which a process is killed, where one is."""


LITTLE: dict[str, Any] = {
    "watch": [gradwatch.gradients(), gradwatch.weights()],
    "diagnose": False,
}
"""What is quickly compiled, where it does not matter what is measured."""


class Trainings:
    """The trainings of this process, one after the other."""

    def __init__(self, rank: int, folder: Path) -> None:
        self.rank, self.folder = rank, folder
        self.weights: dict[str, Any] = {}
        self.said: dict[str, list[str]] = {}
        self.bytes: dict[str, int] = {}

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
        told = {"said": self.said, "bytes": self.bytes}
        (self.folder / f"{self.rank}.json").write_text(json.dumps(told))


def trainings_of_all(trainings: Trainings) -> None:
    """With monitors on all processes, on none, and in all the ways in which they may differ."""
    import keras

    from gradwatch.core.schedule import never
    from gradwatch.parallel import agreement
    from tests.distributed.full_disk import bytes_of_journals
    from tests.distributed.jax.models import MODELS
    from tests.distributed.jax.training import fit

    rank, folder = trainings.rank, trainings.folder
    plain, batch_norm = MODELS["plain"](), MODELS["batch_norm"]()

    def monitor(name: str, every: Any = 1, **options: Any) -> Any:
        store = gradwatch.Store()
        return gradwatch.Monitor(folder / name, every=every, sinks=[store], **(options or LITTLE))

    def train(name: str, model: Any, *callbacks: Any) -> None:
        trainings.run(name, lambda: fit(model, callbacks, data_parallel(), part_of(rank)))

    class Closing(keras.callbacks.Callback):  # type: ignore[misc]
        """Closes its monitor on the second process, after the first step and before the next."""

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if rank == 1 and batch == 1:
                closed.close()

    agreement.PATIENCE = PATIENCE
    train("bare", batch_norm)
    train("watched", batch_norm, monitor("watched", watch=None))
    train("bare_plain", plain)
    if FULL:
        (folder / "a_file").touch()
        train("unwritable", plain, monitor("a_file/run" if rank == 0 else "fine"))
        train("differing", plain, monitor("differing", every=1 + rank))
    for full in (0, 1):
        place = f"disk/run{full}" if rank == full else f"full_{full}"
        train(f"full_{full}", plain, monitor(place))
        trainings.bytes[f"full_{full}"] = bytes_of_journals(folder / "disk" / f"run{full}")
    closed = monitor("closed")
    train("closed", plain, closed, Closing())
    trainings.run("loop", lambda: loop(monitor("loop")))
    train("paused", plain, monitor("paused", every=1 if rank == 0 else never()))
    train("function", plain, monitor("function", every=lambda step: step == 1 or rank == 0))
    # Last: from then on, the processes have not asked equally often.
    agreement.PATIENCE = 1.0
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

    from tests.distributed.jax.models import MODELS
    from tests.distributed.jax.training import fit

    store = gradwatch.Store()
    monitor = gradwatch.Monitor(trainings.folder / "run", every=1, sinks=[store], **LITTLE)
    written = trainings.folder / "written"

    class Killed(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            float(logs["loss"])  # Waits for the step.
            until_written(monitor)
            if batch + 1 == AFTER and trainings.rank == 0:
                written.touch()
            if batch + 1 == AFTER and trainings.rank == 1:
                until(written.exists)
                os.kill(os.getpid(), signal.SIGKILL)

    fit(MODELS["plain"](), [monitor, Killed()], data_parallel(), part_of(trainings.rank))


def data_parallel() -> Any:
    """Over the devices of both processes."""
    import keras

    devices = keras.distribution.list_devices()
    return keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False)


def part_of(rank: int) -> slice:
    """Which samples of each batch are this process's."""
    from tests.distributed.jax.models import BATCH

    half = BATCH // PROCESSES
    return slice(rank * half, (rank + 1) * half)


def connect() -> None:
    """Have all devices meet now, when none of them has to wait for long.

    Those that meet for the first time wait 30 seconds for each other, which cannot be changed:
    less than the compiling of a step may take longer here than there on a busy machine. Those
    that are connected wait longer.
    """
    import numpy as np
    from jax._src.distributed import global_state
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = jax.make_mesh((PROCESSES, 2), ("process", "device"))
    spread = PartitionSpec("process", "device")
    values = np.ones((PROCESSES, 2), dtype="float32")
    x = jax.make_array_from_callback(values.shape, NamedSharding(mesh, spread), values.__getitem__)
    # Keras compares and copies weights from process to process; a step is of all devices.
    for axes in (("process",), ("process", "device")):
        total = functools.partial(jax.lax.psum, axis_name=axes)
        left = PartitionSpec(*(None if name in axes else name for name in spread))
        together = jax.jit(jax.shard_map(total, mesh=mesh, in_specs=spread, out_specs=left))
        compiled = together.lower(x).compile()
        global_state.client.wait_at_barrier(f"connect/{len(axes)}", int(PATIENCE * 1000))
        jax.block_until_ready(compiled(x))


def main() -> None:
    rank, address, folder, what = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        address,
        PROCESSES,
        rank,
        # On a busy machine, a process may be heard of late.
        initialization_timeout=int(PATIENCE),
        heartbeat_timeout_seconds=int(PATIENCE),
    )
    connect()
    trainings = Trainings(rank, folder)
    be_patient()
    {"all": trainings_of_all, "killed": killed}[what](trainings)
    trainings.write()


if __name__ == "__main__":
    main()
