"""The default schedule in `fit`: as often as the budget allows."""

import io
import json

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch.record import session as session_module
from gradwatch.watches.budget import Pacer, floor, is_in_floor
from tests.distributed.patience import until_written

pytestmark = pytest.mark.any_backend


class Steps(gradwatch.Sink):
    def __init__(self):
        self.steps = []

    def write(self, reading):
        if not reading.is_report:
            self.steps.append(reading.step)


class Clock(keras.callbacks.Callback):
    """Time in which a step takes a second, and measuring it as much as is said."""

    def __init__(self, added, per_epoch):
        super().__init__()
        self.now = 0.0
        self.added = added
        self.monitor = None
        self._per_epoch = per_epoch
        self._step = 0

    def on_train_batch_begin(self, batch, logs=None):
        if self._step % 100 == 0:
            # Steps as short as these are sooner over than recorded, on a busy machine.
            until_written(self.monitor)
        step = self._step  # the one that has just ended
        moment = gradwatch.schedule.Moment(
            step, stands_for_epoch=step % self._per_epoch == 0 and step > 0
        )
        is_measured = step > 0 and self.monitor._session.timetable.is_due(moment)
        self.now += 1.0 + (self.added if is_measured else 0.0)
        self._step += 1


def small_model():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def fit(monitor, callbacks, steps, epochs=1):
    x = np.ones((steps, 2), "float32")
    small_model().fit(
        x, x[:, :1], batch_size=1, epochs=epochs, callbacks=[*callbacks, monitor], verbose=0
    )


def timed(monkeypatch, directory, added, per_epoch, **options):
    """A monitor that lives in a clock's time."""
    clock = Clock(added, per_epoch)
    monkeypatch.setattr(
        session_module,
        "make_pacer",
        # Threads do not live in the clock's time: how far they lag behind is left out.
        lambda budget, *_: Pacer(budget, clock=lambda: clock.now),
    )
    # Nor do these long steps end the floor.
    monkeypatch.setattr(floor, "SECONDS", np.inf)
    monkeypatch.setattr(floor, "BLIND_SECONDS", np.inf)
    clock.monitor = gradwatch.Monitor(directory, **options)
    return clock


def test_the_first_twenty_steps_and_the_epochs_last_are_measured(tmp_path, monkeypatch):
    seen = Steps()
    clock = timed(monkeypatch, tmp_path, 0.03, 25, sinks=[seen])
    fit(clock.monitor, [clock], steps=25, epochs=2)
    assert seen.steps[:20] == list(range(1, 21))
    assert {25, 40, 50} <= set(seen.steps)


@pytest.mark.parametrize(("added", "interval"), [(0.03, 5), (0.15, 20)])
def test_the_interval_becomes_the_densest_within_the_budget(tmp_path, monkeypatch, added, interval):
    seen = Steps()
    clock = timed(monkeypatch, tmp_path, added, 400, sinks=[seen])
    fit(clock.monitor, [clock], steps=400, epochs=3)
    cost = clock.monitor.cost
    assert cost.interval == interval
    assert cost.added_seconds == pytest.approx(added)
    assert cost.step_seconds == pytest.approx(1.0)
    later = [s for s in seen.steps if s >= cost.since_step]
    regular = {s for s in range(cost.since_step, 1201) if s % interval == 0 or is_in_floor(s)}
    assert set(later) == regular | {s for s in (400, 800, 1200) if s >= cost.since_step}


def test_a_fixed_schedule_stays_as_it_is_and_its_cost_is_known(tmp_path, monkeypatch):
    seen = Steps()
    clock = timed(monkeypatch, tmp_path, 0.5, 10**9, every=4, sinks=[seen])
    fit(clock.monitor, [clock], steps=200)
    assert seen.steps == list(range(4, 201, 4))
    assert clock.monitor.cost.budget is None
    assert clock.monitor.cost.added_seconds == pytest.approx(0.5)


def test_the_console_says_in_one_line_what_it_costs(tmp_path, monkeypatch):
    printed = io.StringIO()
    clock = timed(monkeypatch, tmp_path, 0.03, 600, sinks=[gradwatch.Console(file=printed)])
    fit(clock.monitor, [clock], steps=600)
    cost = clock.monitor.cost
    share = f"{cost.fraction:.2%} of the training time"
    *_, note, verdict, end = printed.getvalue().splitlines()
    assert verdict.startswith("gradwatch · verdict: ")
    assert note == f"measures every 5th step, for {share}"
    assert end.startswith(f"gradwatch · {cost.measured_steps} of 600 steps measured, ")
    assert end.endswith(f", measuring took {share}")


def test_what_was_chosen_and_what_it_cost_is_kept_with_the_run(tmp_path, monkeypatch):
    clock = timed(monkeypatch, tmp_path / "run", 0.03, 600, sinks=[Steps()])
    fit(clock.monitor, [clock], steps=600)
    facts = json.loads(json.dumps(clock.monitor.cost_facts(), allow_nan=False))
    assert facts["interval"] == 5
    assert facts["budget"] == 0.01
    kept = (tmp_path / "run" / "run.json").read_text()
    assert json.dumps(facts["added_seconds"]) in kept


def test_another_model_is_measured_anew(tmp_path, monkeypatch):
    clock = timed(monkeypatch, tmp_path, 0.15, 400, sinks=[Steps()])
    fit(clock.monitor, [clock], steps=400)
    assert clock.monitor.cost.interval == 20
    fit(clock.monitor, [], steps=5)
    assert clock.monitor.cost.interval == 10
