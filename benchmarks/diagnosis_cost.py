"""What the diagnosis adds to training, beyond the measuring itself.

The same model is trained with the same measurements, with and without the rules, by turns;
the times are medians of rounds. Beside it, the time that the diagnosis's own thread takes per
step: it does not depend on what else the machine does.

    KERAS_BACKEND=torch python benchmarks/diagnosis_cost.py [--every 10] [--rounds 7]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# One thread: several that wait for each other on a busy machine tell nothing.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import keras
import numpy as np

import gradwatch
from gradwatch import Kind, Reading, Site, Summary
from gradwatch.diagnosis import Diagnosis
from gradwatch.diagnosis.live import LiveDiagnosis

STEPS = 200


def network(depth: int, width: int) -> Any:
    layers: list[Any] = [keras.Input((width,))]
    layers += [keras.layers.Dense(width, "relu") for _ in range(depth)]
    model = keras.Sequential([*layers, keras.layers.Dense(10, "softmax")])
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


class ThreadTime:
    """Adds up what the diagnosis's thread works."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0
        for name in ("write", "wake"):
            setattr(LiveDiagnosis, name, self._timed(getattr(LiveDiagnosis, name)))

    def _timed(self, method: Callable[..., None]) -> Callable[..., None]:
        def timed(live: LiveDiagnosis, *args: Any) -> None:
            began = time.thread_time()
            method(live, *args)
            self.seconds += time.thread_time() - began
            self.calls += 1

        return timed


def trained(model: Any, data: tuple[Any, Any], every: int, diagnose: bool) -> float:
    """Seconds a step."""
    watch = [
        gradwatch.gradients(),
        gradwatch.weights(),
        gradwatch.updates(),
        gradwatch.outputs(per_unit=True),
    ]
    monitor = gradwatch.Monitor(
        tempfile.mkdtemp(), every=every, watch=watch, sinks=[gradwatch.Store()], diagnose=diagnose
    )
    # The first call compiles.
    model.fit(*data, batch_size=64, steps_per_epoch=every, verbose=0, callbacks=[monitor])
    began = time.perf_counter()
    model.fit(*data, batch_size=64, steps_per_epoch=STEPS, verbose=0, callbacks=[monitor])
    return (time.perf_counter() - began) / STEPS


def engine_milliseconds(layers: int = 100, steps: int = 100) -> dict[str, float]:
    """CPU time for asking all rules about a reading of 4 sites a layer, by the loss's course."""
    rng = np.random.default_rng(0)
    kinds = (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE, Kind.OUTPUT)
    sites = [Site(kind, f"net/layer{i}/kernel") for i in range(layers) for kind in kinds]
    sites.append(Site(Kind.LOSS, "loss"))
    taken = {}
    for course in ("falling", "flat"):
        diagnosis, seconds = Diagnosis(), []
        for step in range(1, steps + 1):
            rows = [Summary.of(rng.normal(size=64)).pack() for _ in sites[:-1]]
            loss = 1.0 / step if course == "falling" else 1.0
            rows.append(Summary.of(loss).pack())
            reading = Reading(step, 1, 0.0, sites, Summary.unpack(np.stack(rows)))
            began = time.thread_time()
            diagnosis.observe(reading)
            seconds.append(time.thread_time() - began)
        taken[course] = 1e3 * statistics.median(seconds[steps // 2 :])
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--width", type=int, default=256)
    options = parser.parse_args()
    for course, milliseconds in engine_milliseconds().items():
        print(f"all rules, a reading of 401 sites, loss {course}: {milliseconds:.2f} ms CPU time")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64 * STEPS, options.width)).astype("float32")
    y = (x[:, :10].argmax(1)).astype("int32")
    model = network(options.depth, options.width)
    thread = ThreadTime()
    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(options.rounds):
        for diagnose in (False, True):
            times[diagnose].append(trained(model, (x, y), options.every, diagnose))
    without, with_rules = (statistics.median(times[each]) for each in (False, True))
    steps = options.rounds * (STEPS + options.every)
    own = thread.seconds / steps
    sites = len(model.weights) * 3 + 3 * len(model.layers)
    print(f"Keras {keras.__version__} on {keras.backend.backend()}, {sites} sites, "
          f"every {options.every} steps, {options.rounds} rounds by turns")  # fmt: skip
    print(f"a step with measuring            {1e3 * without:8.3f} ms")
    print(f"a step with measuring and rules  {1e3 * with_rules:8.3f} ms "
          f"({with_rules / without - 1:+.2%})")  # fmt: skip
    print(f"the diagnosis's own thread       {1e3 * own:8.3f} ms a step ({own / without:.2%}), "
          f"{1e3 * thread.seconds / max(thread.calls, 1):.3f} ms a call")  # fmt: skip


if __name__ == "__main__":
    main()
