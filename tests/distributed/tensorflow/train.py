"""One of two workers that train together; `conftest.py` starts both.

python train.py <directory for results> <scenario> ...
"""

from __future__ import annotations

import functools
import os
import pickle
import signal
import sys
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.eager.context import Context

import gradwatch
from gradwatch.capture.keras import refusal
from gradwatch.parallel import ranks
from tests.distributed.full_disk import bytes_of_journals
from tests.distributed.patience import PATIENCE, be_patient, until, until_written
from tests.distributed.tensorflow import loops
from tests.distributed.tensorflow.collectives import collectives
from tests.distributed.tensorflow.models import tasks

# On a busy machine a worker may be heard of late. There is no public way to say so.
Context.configure_coordination_service = functools.partialmethod(
    Context.configure_coordination_service, heartbeat_timeout_in_ms=int(PATIENCE * 1000)
)
STRATEGY = tf.distribute.MultiWorkerMirroredStrategy()  # Before anything is computed.
OUT = Path(sys.argv[1])
RANK = ranks.current().index
WATCH = [gradwatch.gradients(per_replica=True), gradwatch.weights()]


class Keep(gradwatch.Sink):
    """Keeps every reading of this worker."""

    of_each_rank = True

    def __init__(self) -> None:
        self.readings: list[gradwatch.Reading] = []

    def write(self, reading: gradwatch.Reading) -> None:
        self.readings.append(reading)


def trained(name: str, monitor: Any, epochs: int = 1) -> dict[str, Any]:
    """Train with a monitor that measures the steps it says are due; the weights and steps."""
    task = tasks()[name]
    model, optimizer = loops.made(task, STRATEGY)
    measured, plain = loops.steps(model, optimizer, monitor, STRATEGY)
    batches = list(loops.batches(task, STRATEGY)) * epochs
    for step, batch in enumerate(batches, start=1):
        if monitor.due(step):
            readings, own = measured(batch)
            monitor.record(readings, step=step)
            monitor.record(own, step=step, group="own")
        else:
            plain(batch)
    monitor.close()
    return {"weights": model.get_weights(), "steps": (measured, plain), "batch": batches[0]}


def unwatched(name: str, epochs: int = 1) -> Any:
    """The weights without anything being measured."""
    never = gradwatch.Monitor(OUT / "never", every=[10**6], sinks=[])
    return trained(name, never, epochs)


def truth() -> None:
    """Four models, watched by both workers and by none."""
    found: dict[str, Any] = {}
    for name in tasks():
        keep = Keep()
        sinks = [keep, gradwatch.Store()]
        monitor = gradwatch.Monitor(OUT / name, every=1, watch=WATCH, sinks=sinks)
        watched, plain = trained(name, monitor), unwatched(name)
        found[name] = {
            "readings": keep.readings,
            "weights": (watched["weights"], plain["weights"]),
            "collectives": (
                collectives(watched["steps"][0].get_concrete_function(watched["batch"])),
                collectives(plain["steps"][1].get_concrete_function(plain["batch"])),
            ),
            "truth": loops.truth(tasks()[name]) if RANK == 0 else None,
        }
    keep_results("truth", found)


def trouble() -> None:
    """Workers of which one measures at other steps or none, or has a disk that is full."""
    found = {"bare": unwatched("plain", epochs=3)["weights"]}
    every = {
        "other-steps": [1, [3]],
        "paused-0": [gradwatch.schedule.never(), 1],
        "paused-1": [1, gradwatch.schedule.never()],
    }
    for name, steps in every.items():
        found[name] = trained("plain", stored(OUT / name, every=steps[RANK]), epochs=3)["weights"]
    written = {}
    for full in range(2):
        name, place = f"full-{full}", OUT / "disk" / f"run{full}"
        monitor = stored(place if full == RANK else OUT / name, every=1)
        found[name] = trained("plain", monitor, epochs=3)["weights"]
        written[name] = bytes_of_journals(place)
    keep_results("trouble", {"weights": found, "written": written})


def budget() -> None:
    """No schedule but the budget, which has room for other steps on each worker."""
    keep = Keep()
    monitor = gradwatch.Monitor(OUT / "budget", watch=WATCH, sinks=[keep, gradwatch.Store()])
    monitor._session.pacer.follow(
        lambda step: step % (2 + RANK) == 0
    )  # As if it had found that out.
    watched = trained("plain", monitor, epochs=6)["weights"]
    found = {
        "weights": (watched, unwatched("plain", epochs=6)["weights"]),
        "readings": keep.readings,
        "truth": loops.truth(tasks()["plain"], epochs=6) if RANK == 0 else None,
    }
    keep_results("budget", found)


def stored(directory: Path, **options: Any) -> Any:
    """A monitor that keeps what it records in a directory."""
    return gradwatch.Monitor(directory, watch=WATCH, sinks=[gradwatch.Store()], **options)


def refused() -> None:
    """What `fit` says of it, and what Keras does."""
    with STRATEGY.scope():
        model = tasks()["plain"].make()
        model.compile("sgd", "mse")
    task = tasks()["plain"]
    try:
        model.fit(task.x, task.y, batch_size=8, verbose=0)
        does = "trains"
    except ValueError:
        does = "raises"
    keep_results("refused", {"refusal": refusal(model), "keras": does})


def killed() -> None:
    """The second worker is killed after four steps."""
    task = tasks()["plain"]
    model, optimizer = loops.made(task, STRATEGY)
    monitor = gradwatch.Monitor(OUT / "killed", every=1, watch=WATCH, sinks=[gradwatch.Store()])
    measured, _ = loops.steps(model, optimizer, monitor, STRATEGY)
    written = OUT / "written"
    for step, batch in enumerate(list(loops.batches(task, STRATEGY)) * 3, start=1):
        readings, own = measured(batch)
        monitor.record(readings, step=step)
        monitor.record(own, step=step, group="own")
        until_written(monitor)
        if step == 4 and RANK == 0:
            written.touch()
        if step == 4 and RANK == 1:
            until(written.exists)  # The first one is ended as soon as this one is.
            os.kill(os.getpid(), signal.SIGKILL)


def keep_results(name: str, found: Any) -> None:
    (OUT / f"{name}-{RANK}.pickle").write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    be_patient()
    for scenario in sys.argv[2:]:
        globals()[scenario]()
