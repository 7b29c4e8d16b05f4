"""The one object that users handle: it wires selection, capture and sinks together."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradwatch.capture import guarded
from gradwatch.capture.loop.methods import LoopMethods
from gradwatch.capture.loop.recorder import LoopRecorder
from gradwatch.core import Kind, Less, SiteInfo
from gradwatch.core import schedule as schedules
from gradwatch.core import select as selectors
from gradwatch.diagnosis import Finding, Severity
from gradwatch.diagnosis.settings import Spec as DiagnosisSpec
from gradwatch.parallel import agreement
from gradwatch.record.arguments import as_announcer, as_place, as_sinks, as_watches
from gradwatch.record.fit import FitMethods
from gradwatch.record.session import Recording
from gradwatch.sinks import Sink
from gradwatch.store.remote import Remote, as_remote
from gradwatch.util import Reporter
from gradwatch.watches import Timetable, Watch, for_diagnosis, of_the_step
from gradwatch.watches.budget import Cost, Pacer

BUDGET = 0.01
_BESIDE = frozenset({Kind.LOSS, Kind.SCALAR})


class Monitor(FitMethods, LoopMethods):
    """Watches a model while it trains, in Keras's `fit` or in a loop of your own.

    Without further arguments it summarises every weight and every gradient of
    the training step, as often as that slows training down by less than 1 %, takes
    histograms once an epoch, keeps all of it in the run's directory, and writes
    TensorBoard event files and a table at each epoch's end. It says what is wrong with
    the training, if something is. Training itself is not changed: not its results, not its
    random numbers, not the model. A fault of the monitor's is said once and never stops it.

    In `fit`, pass it as a callback. In a loop, call `record`, or `measure` inside
    a compiled step; see also `tape` for TensorFlow and `gradwatch.watch` for torch.

    Args:
        directory: where the run is kept; `runs/<date>-<time>` if not given. A run
            that is there already is continued. If another process is writing
            there, this one goes beside it, to `<directory>-2`; processes that train
            together share it, see docs/distributed.md. A URL such as
            `"s3://bucket/runs/a"`, or a `gradwatch.Remote`: what is sealed is uploaded
            there, see docs/remote.md.
        every: how often to measure, see `gradwatch.schedule`: a number of batches,
            `"epoch"`, a list of steps, ... Instead of a budget.
        budget: how much measuring may slow training down, as a fraction; 0.01 if neither
            this nor `every` is given. The monitor finds out what it costs, on this
            machine and model, and measures every step, every 2nd, 5th, 10th, 20th, ...
            accordingly; one step of each epoch in any case. See `cost`.
        layers: which layers to measure, see `gradwatch.select`: indices, names,
            patterns, types, ...; all if not given.
        watch: what to measure in detail, instead of `layers`: a list of
            `gradients(...)`, `weights(...)`, `updates(...)`, `applied_gradients(...)`,
            `outputs(...)`, `output_gradients(...)`, `pictures(...)`, `spectral_norms(...)`.
        sinks: where to send it: a list of `Store()`, `TensorBoard()`, `Console()`,
            `CSV()` or other `Sink`s; the first three if not given.
        diagnose: False for no diagnosis; or a list of names of rules, of
            `gradwatch.silence(...)` and of thresholds by rule. Without `layers` and
            `watch`, what the rules need is measured along: updates, outputs, and what the
            step is given.
        on_finding: a function that is called with each `Finding`, on the thread that trains.
        stop_on: `"warning"` or `"error"` to have training end cleanly when something as bad
            as that is found: `fit` ends after that step, and in a loop `should_stop` is True.

    Raises:
        TypeError, ValueError: an argument is not of this form. A selector that
            matches nothing is reported when `fit` begins.

    Example:

    >>> import os; _ = os.environ.setdefault("KERAS_BACKEND", "jax")
    >>> import keras, numpy as np, gradwatch, tempfile
    >>> model = keras.Sequential([keras.layers.Dense(1, name="line")], name="net")
    >>> model.compile("adam", "mse")
    >>> monitor = gradwatch.Monitor(tempfile.mkdtemp(), sinks=[gradwatch.CSV()])
    >>> x, y = np.ones((64, 4)), np.ones((64, 1))
    >>> _ = model.fit(x, y, batch_size=4, callbacks=[monitor], verbose=0)
    >>> (monitor.directory / "summaries.csv").read_text().splitlines()[1].split(",")[3:5]
    ['weight', 'net/line/kernel']
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Monitor:
        return object.__new__(_as_keras_callback(cls))

    def __init__(
        self,
        directory: str | Path | Remote | None = None,
        *,
        every: schedules.Spec | None = None,
        budget: float | None = None,
        layers: Sequence[selectors.Spec] | selectors.Spec | None = None,
        watch: Sequence[Watch] | Watch | None = None,
        sinks: Sequence[Sink] | Sink | None = None,
        diagnose: DiagnosisSpec = True,
        on_finding: Callable[[Finding], object] | None = None,
        stop_on: Severity | str | None = None,
    ) -> None:
        if every is not None and budget is not None:
            raise ValueError(
                "Give either every= or budget=: the steps to measure, or what that may cost. "
                f"Received: every={every!r}, budget={budget!r}"
            )
        watches = as_watches(layers, watch)
        if budget is None and every is None and any(w.every is None for w in watches):
            budget = BUDGET
        self._pacer = Pacer(budget, lambda: self._recording.is_quiet)
        schedule = self._pacer.schedule if every is None else schedules.as_schedule(every)
        remote = as_remote(directory)
        place = as_place(directory, remote)
        self._reporter = Reporter()
        self._shown = Less(lambda site: False)
        self._announcer = as_announcer(diagnose, on_finding, stop_on, self._reporter.notice)
        if self._announcer is not None:
            is_all_asked_for = layers is None and watch is None
            beside = frozenset() if is_all_asked_for else _BESIDE - {w.kind for w in watches}
            watches += [*(for_diagnosis() if is_all_asked_for else []), *of_the_step()]
            # Who says what to record gets that and nothing else.
            self._shown = Less(lambda site: site.kind in beside)
        self._timetable = Timetable(watches, schedule)
        self._recorder: LoopRecorder | None = None
        self._recording = Recording(
            place,
            remote,
            as_sinks(sinks),
            self._timetable,
            self._pacer,
            self._announcer,
            self._reporter,
            unharmed=self._unharmed,
            infos=self._infos,
            on_lost=self._lose_directory,
            is_named=directory is not None,
        )

    @property
    def directory(self) -> Path:
        """Where the run is kept on this machine."""
        return self._recording.directory

    @property
    def cost(self) -> Cost:
        """What measuring costs, as far as it is known by now; see `gradwatch.Cost`."""
        return self._pacer.cost()

    def cost_facts(self) -> dict[str, Any]:
        """The same for JSON; times in seconds, None where not known."""
        return self.cost.facts()

    @property
    def findings(self) -> list[Finding]:
        """What was found in the training so far, the worst first; see `gradwatch.Finding`."""
        return [] if self._announcer is None else list(self._announcer.live.findings)

    @property
    @guarded(bool)
    def should_stop(self) -> bool:
        """Whether something was found for which a loop is to stop, by `stop_on`."""
        self._recording.announce()
        return self._recording.must_stop()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @guarded(plainly=False)
    def close(self) -> None:
        """Write out all there is, within 2 seconds, and let go of the files."""
        self._leave_fit()
        with self._unharmed():
            if self._recorder is not None:
                self._recorder.end()
        self._recording.close()

    # The course of a loop, as `capture.loop` reports it.

    def _loop(self) -> LoopRecorder:
        if self._recorder is None:
            self._recorder = LoopRecorder(
                # What a loop says that a step was given is recorded, whatever is watched.
                self._timetable.along(Kind.INPUT, Kind.TARGET),
                self._pacer,
                self._recording.submit,
                lambda loop: None if self._recording.is_open else self._recording.open(loop),
                lambda epoch: self.epoch_ends(epoch, {}),
                self._reporter.notice,
                self._may_measure,
            )
        return self._recorder

    def _may_measure(self, timetable: Timetable) -> bool:
        """Whether all processes of this training measure the same, where that matters."""
        agreement.pace(self._pacer)
        wishes = [*map(str, timetable.watches), str(timetable.every)]
        every = [timetable.every, *(s for w in timetable.watches for s in (w.every, w.histogram))]
        functions = [
            schedule.name
            for schedule in every
            if isinstance(schedule, schedules.Schedule)
            and schedule is not self._pacer.schedule
            and not schedule.is_fixed
        ]
        why = agreement.refusal(wishes, list(dict.fromkeys(functions)))
        if why is not None:
            self._reporter.notice(why)
        return why is None

    def _fault(self, error: Exception) -> None:
        self._reporter.internal_error(error)

    def _lose_directory(self) -> None:
        self._recording.is_displaced = self._recorder is not None
        self.close()

    def _infos(self) -> list[SiteInfo]:
        """What is known of the sites of the fit and of the loop."""
        return [i for c in (self._capture, self._recorder) if c is not None for i in c.infos()]

    @contextmanager
    def _unharmed(self) -> Iterator[None]:
        """Keep training from our own faults, but not from the user's mistakes."""
        try:
            yield
        except selectors.SelectionError:
            self.close()
            raise
        except Exception as error:
            self._reporter.internal_error(error)

    def __getattr__(self, name: str) -> Any:
        # Keras may be imported after the monitor is made; it becomes a callback
        # when it is first asked to behave like one.
        callback = _as_keras_callback(type(self))
        if callback is type(self) or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.__class__ = callback
        return getattr(self, name)


def _as_keras_callback(cls: type[Monitor]) -> type[Monitor]:
    """The class as a Keras callback too, if Keras is in use; it is not imported for this."""
    if "keras" not in sys.modules:
        return cls
    from gradwatch.capture.keras.callback import as_callback

    return as_callback(cls)
