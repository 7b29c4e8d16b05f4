"""Trains again and again, each time with a fault at another place of gradwatch's.

`python -m tests.faults.injecting TRAINING FOLDER HOW_MANY SEED [PARTS]` prints a line of JSON
for each fault: where it was, whether training came to its end, whether with the same weights,
and what was said. HOW_MANY is 0 for all; PARTS are the beginnings of the modules' names.
"""

from __future__ import annotations

# ruff: noqa: E402
from tests.faults import injection

injection.install()

import contextlib
import io
import json
import shutil
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from gradwatch.util.reporter import GradwatchWarning
from tests.conftest import _be_patient
from tests.faults import trainings
from tests.faults.injection import Injection

# An exception at the very call of one of these is raised in the caller, which is Python, a
# framework or the user: there is nobody of ours to catch it. So they are no more than a `try`.
DOORS = (
    "capture.guard.guarded.decorate.call",
    "capture.keras.again.jax_rerunner._NotedBatches.__next__",
    "capture.keras.again.kept_call.KeptCall.__call__",
    "capture.keras.again.step_keeper.StepKeeper.note",
    "capture.keras.again.tensorflow_rerunner._NotedFunction.__call__",
    "capture.keras.again.tensorflow_rerunner._NotedFunction.__init__.noted",
    "capture.keras.checked_call.CheckedCall.__call__",
    "capture.keras.checked_call.StepChecks._noting.noting_call",
    "capture.keras.ahead.jax_tracer.JaxTracer.arguments",
    "capture.keras.ahead.jax_tracer.JaxTracer.on_batch",
    "capture.keras.ahead.jax_tracer.JaxTracer.take",
    "capture.keras.ahead.tensorflow_tracer.TensorFlowTracer.arguments",
    "capture.keras.ahead.tensorflow_tracer.TensorFlowTracer.on_batch",
    "capture.keras.ahead.tensorflow_tracer.TensorFlowTracer.take",
    "capture.keras.measured_call.MeasuredCall.__call__",
    "capture.keras.measured_call.MeasuredCall._call_ahead",
    "capture.keras.step.MeasuredStep._one.one",
    "capture.keras.backends.wrapped_step.watched.measured_train_step",
    "capture.keras.optimizers.tapped.taps.tapped_apply",
    "capture.keras.optimizers.tapped.taps.tapped_stateless_apply",
    "capture.keras.assignments.assignment_taps.wrapped.tapped_assign",
    "capture.keras.outputs.LayerTap._wrapped.tapped_call",
    "capture.keras.step_inputs.StepInputs._noting_update.noting_update",
    "capture.keras.step_inputs.StepInputs._noting_rate.noting_read",
    "capture.taps.jax_tap.JaxTap.through.backward",
    "capture.taps.passage.Passage.note_gradient",
    "capture.loop.loop_source.LoopSource.measure",
    "capture.loop.loop_source.LoopSource.record",
    "capture.loop.loop_source.LoopSource.tape",
    "capture.loop.outputs_context.OutputsContext.__enter__",
    "capture.torch.finite_checks.FiniteChecks._note_gradient",
    "capture.torch.module_calls._called",
    "capture.torch.torch_layers._Hook.__call__",
    "record.keras_callback.KerasCallback.__class__",
    "record.keras_callback.KerasCallback.set_model",
    "record.keras_callback.KerasCallback.set_params",
    "record.loop_interface.LoopInterface.due",
    "record.loop_interface.LoopInterface.measure",
    "record.loop_interface.LoopInterface.outputs_of",
    "record.loop_interface.LoopInterface.record",
    "record.loop_interface.LoopInterface.reduced_by",
    "record.loop_interface.LoopInterface.tape",
    "util.suggestions.suggests_arguments.decorate.call",
    "util.worker.Worker._run",
    "util.background.Background._run",
)


def attempt(name: str, directory: Path, injection: Injection) -> dict[str, Any]:
    """Train once; what came of it."""
    outcome: dict[str, Any] = {"at": injection.target, "nth": injection.nth}
    deaths: list[str] = []
    threading.excepthook = lambda args: deaths.append(str(args.exc_value))
    with warnings.catch_warnings(record=True) as said, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        monitor = trainings.monitor_for(name, directory)
        try:
            with injection:
                outcome["weights"] = getattr(trainings, name)(monitor).hex()
        except BaseException as error:
            outcome["raised"] = repr(error)
        monitor.close()
    outcome["said"] = [str(w.message) for w in said if issubclass(w.category, GradwatchWarning)]
    outcome["deaths"] = deaths
    outcome["reached"] = injection.was_reached
    shutil.rmtree(directory, ignore_errors=True)
    return outcome


def main() -> None:
    # What a busy machine has not written in time would look like faults that were not reached.
    _be_patient(60.0)
    name, folder, few, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    parts = tuple(sys.argv[5].split(",")) if len(sys.argv) > 5 else ("",)
    truth = getattr(trainings, name)(None).hex()
    attempt(name, folder / "first", Injection())
    clean = Injection()
    usual = attempt(name, folder / "clean", clean)
    assert usual.get("weights") == truth, usual
    places = [place for place in sorted(clean.calls) if place.rpartition(":")[0] not in DOORS]
    places = [place for place in places if place.startswith(parts)]
    chosen = [(place, 1) for place in places]
    rng = np.random.default_rng(seed)
    if few and few < len(chosen):
        chosen = [chosen[i] for i in sorted(rng.choice(len(chosen), few, replace=False))]
    elif not few:
        # All of them, and then one of their later calls as well.
        chosen += [
            (p, int(rng.integers(2, clean.calls[p] + 1))) for p in places if clean.calls[p] > 1
        ]
    print(json.dumps({"places": len(places), "calls": sum(clean.calls.values())}), flush=True)
    for i, (place, nth) in enumerate(chosen):
        outcome = attempt(name, folder / str(i), Injection(place, nth))
        outcome["same"] = outcome.pop("weights", None) == truth
        outcome["said"] = [s for s in outcome["said"] if s not in usual["said"]]
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main()
