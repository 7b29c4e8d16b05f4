"""The monitor as an object: a callback, a context, a directory, several at once."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch import GradwatchWarning
from tests.distributed.patience import until
from tests.keras.support import Keep
from tests.keras.support_behaviour import copied, csv_steps, fit, linear_model, ours
from tests.keras.ways import KEEPS_VARIABLES


def run_script(code: str, *args: object) -> str:
    """Run Python in a process of its own, and give what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    assert "GradwatchWarning" not in done.stderr, done.stderr
    return done.stdout


MADE_BEFORE_KERAS = """
import sys
import gradwatch
from tests.distributed.patience import be_patient
be_patient()
monitor = gradwatch.Monitor(sys.argv[1], every=1, sinks=[gradwatch.CSV()])
assert "keras" not in sys.modules
import keras, numpy as np
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
model.compile("sgd", "mse", run_eagerly=True)
model.fit(np.ones((8, 3)), np.ones((8, 2)), batch_size=4, verbose=0, callbacks=[monitor])
assert isinstance(monitor, keras.callbacks.Callback)
"""


@pytest.mark.any_backend
def test_a_monitor_made_before_keras_is_imported_works(tmp_path: Path) -> None:
    run_script(MADE_BEFORE_KERAS, tmp_path)
    assert csv_steps(tmp_path) == [1, 2]


@pytest.mark.any_backend
def test_with_closes_the_run(tmp_path: Path) -> None:
    keep = Keep()
    with gradwatch.Monitor(tmp_path, every=1, sinks=[keep, gradwatch.CSV()]) as monitor:
        fit(linear_model(), 2, monitor)
    assert keep.steps == csv_steps(tmp_path) == [1, 2]


@pytest.mark.any_backend
def test_an_unwritable_directory_is_said_once_and_training_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    monitor = gradwatch.Monitor(tmp_path / "file" / "run", every=1, sinks=[gradwatch.CSV()])
    model, bare = linear_model(), linear_model()
    bare.set_weights(model.get_weights())
    with pytest.warns(GradwatchWarning, match="Cannot write to") as warned:
        fit(model, 3, monitor, epochs=2)
    assert len(ours(warned)) == 1
    fit(bare, 3, epochs=2)
    for one, other in zip(copied(model.weights), copied(bare.weights), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


HOLDS_THE_DIRECTORY = """
import sys, time
from pathlib import Path
from gradwatch.record.directory import RunDirectory
run = RunDirectory(Path(sys.argv[1]), on_lost=lambda: None)
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.mark.any_backend
def test_a_directory_that_another_process_writes_to_is_left_alone(tmp_path: Path) -> None:
    wished = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_THE_DIRECTORY, wished],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        monitor = gradwatch.Monitor(wished, every=1, sinks=[gradwatch.CSV()])
        with pytest.warns(GradwatchWarning, match="being written by another process"):
            fit(linear_model(), 2, monitor)
        other.communicate("\n")
    assert monitor.directory == tmp_path / "run-2"
    assert csv_steps(tmp_path / "run-2") == [1, 2]
    assert not (wished / "summaries.csv").exists()


class Interrupts(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == 1:
            raise KeyboardInterrupt


@KEEPS_VARIABLES
def test_the_same_directory_goes_on_after_an_interrupted_fit(tmp_path: Path) -> None:
    model = linear_model()
    first = gradwatch.Monitor(tmp_path / "run", every=1, sinks=[gradwatch.CSV()])
    with pytest.raises(KeyboardInterrupt):
        fit(model, 4, first, Interrupts())
    second = gradwatch.Monitor(tmp_path / "run", every=1, sinks=[gradwatch.CSV()])
    fit(model, 2, second)
    assert second.directory == tmp_path / "run"
    assert csv_steps(tmp_path / "run") == [1, 2, 3, 4]
    fits = json.loads((tmp_path / "run" / "run.json").read_text())["fits"]
    assert [entry["first_step"] for entry in fits] == [1, 3]


@pytest.mark.parametrize("eagerly", [False, True], ids=["compiled", "eager"])
def test_two_monitors_watch_one_fit_each_as_if_alone(make_monitor: Any, eagerly: bool) -> None:
    def train(*callbacks: Any) -> Any:
        keras.utils.set_random_seed(1)
        model = linear_model(keras.optimizers.Adam(0.1), run_eagerly=eagerly)
        fit(model, 6, *callbacks)
        return model

    settings: list[dict[str, Any]] = [
        {"every": 2, "watch": [gradwatch.gradients(histogram=True), gradwatch.updates()]},
        {"every": 3, "watch": [gradwatch.gradients(histogram=6), gradwatch.weights(every=[1, 2])]},
    ]
    together = [make_monitor(**each) for each in settings]
    model = train(*(monitor for monitor, _ in together))
    assert [keep.steps for _, keep in together] == [[2, 4, 6], [1, 2, 3, 6]]
    for each, (_, keep) in zip(settings, together, strict=True):
        monitor, alone = make_monitor(**each)
        train(monitor)
        assert alone.steps == keep.steps
        for one, other in zip(keep.readings, alone.readings, strict=True):
            assert one.sites == other.sites
            np.testing.assert_allclose(
                one.summary.pack(), other.summary.pack(), rtol=1e-5, atol=1e-7
            )
            assert one.cells.keys() == other.cells.keys()
            for i, cells in one.cells.items():
                assert cells.sum() == other.cells[i].sum() == one.summary.count[i]
    bare = train()
    for one, other in zip(copied(model.variables), copied(bare.variables), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert type(vars(model)["train_function"]).__name__ == "function"


class Raises(gradwatch.Sink):
    def write(self, reading: Any) -> None:
        raise RuntimeError("this sink is broken")


class Hangs(gradwatch.Sink):
    def __init__(self) -> None:
        self.goes_on = threading.Event()

    def write(self, reading: Any) -> None:
        self.goes_on.wait()


@pytest.mark.any_backend
def test_a_sink_that_raises_is_said_and_the_others_get_everything(tmp_path: Path) -> None:
    keep = Keep()
    monitor = gradwatch.Monitor(tmp_path, every=1, sinks=[Raises(), keep])
    with pytest.warns(GradwatchWarning) as warned:
        fit(linear_model(), 5, monitor)
    assert keep.steps == [1, 2, 3, 4, 5]
    said = ours(warned)
    assert "Raises.write() failed: RuntimeError: this sink is broken" in said[0]
    assert re.search(r"Raises lost \d+ readings", said[-1])
    assert len(said) == 3  # the first fault, being switched off, and what was lost


@pytest.mark.any_backend
def test_a_sink_that_hangs_holds_fit_up_for_two_seconds_at_most(
    tmp_path: Path, be_patient: Any, closing_time: float
) -> None:
    assert closing_time == 2.0
    be_patient(4.0)
    keep, hangs = Keep(), Hangs()
    monitor = gradwatch.Monitor(tmp_path, every=1, sinks=[hangs, keep])
    model = linear_model()
    fit(model, 1)
    # The other sink is not the one that is given up, however busy the machine is.
    written = keras.callbacks.LambdaCallback(
        on_train_end=lambda logs: until(lambda: len(keep.readings) % 3 == 0)
    )
    # That `fit` returns shows it: nothing ends the hanging before.
    with pytest.warns(GradwatchWarning, match=r"Hangs lost \d+ readings .* did not finish in time"):
        fit(model, 3, written, monitor)
    assert keep.steps == [2, 3, 4]
    with pytest.warns(GradwatchWarning, match="Hangs"):
        fit(model, 3, written, monitor)
    hangs.goes_on.set()


@pytest.mark.any_backend
def test_run_json_says_what_the_numbers_mean(tmp_path: Path) -> None:
    options = {"clipnorm": 1.0, "gradient_accumulation_steps": 2, "loss_scale_factor": 8.0}
    model = linear_model(keras.optimizers.SGD(0.1, **options))
    fit(model, 4, gradwatch.Monitor(tmp_path, every=1, sinks=[]))
    (entry,) = json.loads((tmp_path / "run.json").read_text())["fits"]
    assert entry["first_step"] == 1
    assert entry["environment"]["keras backend"] == keras.backend.backend()
    assert entry["environment"]["keras"] == keras.__version__
    gradient = entry["meaning"]["gradient"]
    for words in ("loss scale divided out", "micro-batch of 2", "before clipping (clipnorm=1.0)"):
        assert words in gradient
    applied = entry["meaning"]["applied_gradient"]
    for words in ("mean of 2 micro-batches", "after clipping (clipnorm=1.0)"):
        assert words in applied
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".lock",
        "findings.jsonl",
        "run.json",
    ]
