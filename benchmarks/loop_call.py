"""What a call of `monitor.record` costs in a hand-written loop when the step is not due."""

import statistics
import tempfile
import time

import numpy as np

import gradwatch

CALLS = 10_000


def microseconds(call):
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return 1e6 * (time.perf_counter() - start) / CALLS


def record_metrics(monitor, variables, loss):
    metrics = {"accuracy": 0.5, "rate": 1e-3}
    monitor.record(gradients=variables, variables=variables, loss=loss, metrics=metrics)


def main():
    watch = [gradwatch.gradients(every=10**9)]
    monitor = gradwatch.Monitor(tempfile.mkdtemp(), watch=watch, sinks=[])
    variables = {f"layer_{i}": np.ones(10) for i in range(100)}
    loss = np.float32(1.0)

    def record():
        monitor.record(gradients=variables, variables=variables, loss=loss)

    record()
    calls = {
        "an empty call": lambda: None,
        "a record not due": record,
        "with two metrics": lambda: record_metrics(monitor, variables, loss),
    }
    rounds = [{name: microseconds(call) for name, call in calls.items()} for _ in range(7)]
    for name in calls:
        values = [times[name] for times in rounds]
        low, high = min(values), max(values)
        print(f"{name:18} {statistics.median(values):6.2f} us ({low:.2f} to {high:.2f})")
    monitor.close()


if __name__ == "__main__":
    main()
