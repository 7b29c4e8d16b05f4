"""The one object that users handle: it wires selection, capture and sinks together."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradwatch import agreement, environment, ranks
from gradwatch import schedule as schedules
from gradwatch import select as selectors
from gradwatch.budget import Cost, Pacer
from gradwatch.capture.harmless import harmless
from gradwatch.capture.loop.methods import LoopMethods
from gradwatch.capture.loop.recorder import LoopRecorder
from gradwatch.capture.plan import Timetable
from gradwatch.diagnose.finding import Finding, Severity
from gradwatch.diagnose.settings import Spec as DiagnosisSpec
from gradwatch.grouping import Grouping
from gradwatch.monitor_arguments import as_announcer, as_place, as_sinks, as_watches
from gradwatch.reading import Less, Reading
from gradwatch.rundir import RunDirectory
from gradwatch.sinks import RunInfo, Sink
from gradwatch.sinks.pipeline import Pipeline
from gradwatch.sites import Kind, Site
from gradwatch.store.remote.address import Remote, as_remote
from gradwatch.warning import Spokesman, say
from gradwatch.watches import Watch, for_diagnosis, of_the_step

if TYPE_CHECKING:
    from gradwatch.capture.keras.fit import FitCapture
    from gradwatch.store.remote.uploader import Uploader

BUDGET = 0.01
_BESIDE = frozenset({Kind.LOSS, Kind.SCALAR})
_directories = itertools.count()
"""Of those that nobody has named, so that processes agree on each."""


class Monitor(LoopMethods):
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
        self._pacer = Pacer(budget, self._is_quiet)
        schedule = self._pacer.schedule if every is None else schedules.as_schedule(every)
        self._remote = as_remote(directory)
        self._uploader: Uploader | None = None
        self.directory = as_place(directory, self._remote)
        self._spokesman = Spokesman()
        self._shown = Less(lambda site: False)
        self._announcer = as_announcer(diagnose, on_finding, stop_on, self._spokesman.remark)
        if self._announcer is not None:
            is_all_asked_for = layers is None and watch is None
            beside = frozenset() if is_all_asked_for else _BESIDE - {w.kind for w in watches}
            watches += [*(for_diagnosis() if is_all_asked_for else []), *of_the_step()]
            # Who says what to record gets that and nothing else.
            self._shown = Less(lambda site: site.kind in beside)
        self._timetable = Timetable(watches, schedule)
        self._sinks = as_sinks(sinks)
        self._run: RunDirectory | None = None
        self._pipeline: Pipeline | None = None
        self._capture: FitCapture | None = None
        self._recorder: LoopRecorder | None = None
        self._grouping = Grouping({n: g for s in self._sinks for n, g in s.groups.items()})
        self._watching = False
        self._is_displaced = False
        self._told_interval: int | None = None
        self._has_chosen_directory = directory is None
        self._rank = ranks.Rank()

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
    @harmless(bool)
    def should_stop(self) -> bool:
        """Whether something was found for which a loop is to stop, by `stop_on`."""
        self._announce()
        return self._must_stop()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @harmless(plainly=False)
    def close(self) -> None:
        """Write out all there is, within 2 seconds, and let go of the files."""
        self._watching = False
        with self._unharmed():
            if self._capture is not None:
                self._capture.release()
            if self._recorder is not None:
                self._recorder.end()
        if self._pipeline is not None:
            with self._unharmed():
                try:
                    self._pipeline.close()
                finally:
                    self._pipeline = None
                for name in self._grouping.unmatched():
                    self._spokesman.remark(f"The group {name!r} matched nothing that was recorded.")
        if self._announcer is not None:
            with self._unharmed():
                self._announcer.live.end()
                self._announce()
        if self._run is not None:
            with self._unharmed():
                self._tell_sites()
                self._run.amend("cost", self.cost_facts())
                self._run.amend("ended", _now())
            run, self._run = self._run, None
            run.release()
        if self._uploader is not None:
            self._uploader.close()
            self._uploader = None

    # The course of `fit`, as `capture.keras.callback` reports it.

    def fit_begins(self, model: Any) -> None:
        self.close()
        with self._unharmed():
            from gradwatch.capture.keras.fit import FitCapture, refusal

            why = refusal(model)
            if why is not None:
                self._spokesman.remark(why)
                return
            if self._capture is None or not self._capture.serves(model):
                spokesman = self._spokesman
                self._pacer.forget()
                if self._announcer is not None:
                    self._announcer.live.forget()
                self._capture = FitCapture(
                    model,
                    self._timetable,
                    self._pacer,
                    self._submit_fit,
                    spokesman.fault,
                    spokesman.remark,
                )
            self._watching = self._may_measure(self._timetable)

    def epoch_begins(self, epoch: int, batches: int | None) -> None:
        with self._unharmed():
            if self._watching and self._capture is not None:
                self._capture.begin_epoch(epoch, batches)
                if self._pipeline is None:
                    self._open(self._capture)

    def batch_begins(self, batch: int) -> None:
        with self._unharmed():
            if self._watching and self._capture is not None:
                # First, and whatever else fails: all processes must measure the same steps.
                self._capture.begin_batch(batch)
                self._announce()
                if self._must_stop():
                    self._capture.stop()

    def batch_ends(self, batch: int, logs: Mapping[str, float]) -> None:
        """On a thread of Keras's, perhaps."""
        with self._unharmed():
            loss = logs.get("loss")
            if self._announcer is not None and self._capture is not None and loss is not None:
                self._announcer.live.report(self._capture.reported(batch, float(loss)))

    def epoch_ends(self, epoch: int, logs: Mapping[str, float]) -> None:
        with self._unharmed():
            if self._pipeline is not None:
                self._pipeline.epoch_end(epoch, logs)
                if self._announcer is not None:
                    self._announcer.live.epoch_end(epoch, self._last_step(), _losses(logs))
                    self._announce()
            if self._run is not None and self.cost.interval != self._told_interval:
                self._told_interval = self.cost.interval
                self._run.amend("cost", self.cost_facts())

    def fit_ends(self) -> None:
        with self._unharmed():
            if self._capture is not None:
                self._capture.end()
        self.close()

    # The course of a loop, as `capture.loop` reports it.

    def _loop(self) -> LoopRecorder:
        if self._recorder is None:
            self._recorder = LoopRecorder(
                # What a loop says that a step was given is recorded, whatever is watched.
                self._timetable.along(Kind.INPUT, Kind.TARGET),
                self._pacer,
                self._submit,
                lambda loop: None if self._pipeline is not None else self._open(loop),
                lambda epoch: self.epoch_ends(epoch, {}),
                self._spokesman.remark,
                self._may_measure,
            )
        return self._recorder

    def _may_measure(self, timetable: Timetable) -> bool:
        """Whether all processes of this training measure the same, where that matters."""
        agreement.pace(self._pacer)
        why = agreement.refusal([*map(str, timetable.watches), str(timetable.every)])
        if why is not None:
            self._spokesman.remark(why)
        return why is None

    def _fault(self, error: Exception) -> None:
        self._spokesman.fault(error)

    def _open(self, capture: FitCapture | LoopRecorder) -> None:
        """Claim the directory and open the sinks; without one, only those that need none."""
        self._rank = rank = ranks.current()
        if self._has_chosen_directory:
            self._has_chosen_directory = False  # Each process may have come by another name.
            key = f"directory/{next(_directories)}"
            self.directory = Path(ranks.agreed(rank, key, str(self.directory)) or self.directory)
        wished = self.directory
        try:
            # Two monitors of one loop must not take the directory from each other by turns.
            beside = wished.with_name(f"{wished.name}-2") if self._is_displaced else wished
            if rank.has_own:
                self._run = RunDirectory(beside, self._lose_directory, rank)
                self.directory = self._run.path
            if self.directory != wished:
                who = "monitor" if self._is_displaced else "process"
                say(f"{wished} is being written by another {who}. Writing to {self.directory}.")
            self._is_displaced = False
        except OSError as error:
            say(f"Cannot write to {wished}, so nothing is recorded there. {error}")
        self._upload()
        meaning = capture.meaning()
        run = RunInfo(
            self.directory, capture.next_step, meaning, lambda: self.cost.words(), rank.index
        )
        sinks = self._sinks if self._run else [s for s in self._sinks if not s.threaded]
        sinks = [s for s in sinks if rank.is_first or (s.of_each_rank and rank.has_own)]
        self._pipeline = Pipeline(sinks, say)
        self._pipeline.open(run)
        if self._announcer is not None:
            about = capture.facts()
            is_noted = self._run is not None and rank.is_first
            self._announcer.begin(about, self.directory if is_noted else None)
            if self._run is not None:
                self._run.amend("model", about.to_json())
                self._run.amend("diagnose", self._announcer.settings.facts())
        if self._run is not None:
            facts = {
                "started": _now(),
                "first_step": run.first_step,
                **({"ranks": rank.writers} if rank.writers > 1 else {}),
                "every": str(self._timetable.every),
                "watch": [str(w) for w in self._timetable.watches if not w.optional],
                "meaning": {str(kind): text for kind, text in meaning.items()},
                "environment": environment.describe(),
            }
            with self._unharmed():
                self._run.describe(facts)
            self._tell_sites()

    def _upload(self) -> None:
        """Have a run at a URL uploaded while it is recorded."""
        if self._remote is not None and self._run is not None and self._rank.is_first:
            from gradwatch.store.remote.uploader import uploader_for

            with self._unharmed():
                self._uploader = uploader_for(self._remote, self.directory)
                self._spokesman.remark(
                    f"The run is kept in {self.directory} and uploaded to {self._remote.shown}."
                )

    def _is_quiet(self) -> bool:
        """Whether all that was measured is written, as far as anybody writes it."""
        is_looked_at = self._announcer is None or self._announcer.live.is_idle
        return self._pipeline is None or (self._pipeline.is_idle and is_looked_at)

    def _lose_directory(self) -> None:
        self._is_displaced = self._recorder is not None
        self.close()

    def _submit_fit(
        self, make_reading: Callable[[], Reading], rows: int, unseen: frozenset[Site]
    ) -> None:
        self._submit(make_reading, rows, unseen, self._shown)

    def _submit(
        self,
        make_reading: Callable[[], Reading | None],
        rows: int | None = None,
        unseen: frozenset[Site] = frozenset(),
        shown: Callable[[Reading], Reading] = lambda reading: reading,
    ) -> None:
        """Have a reading made and written.

        Args:
            make_reading: makes it; may wait for the device.
            rows: how many sites it will have, if known.
            unseen: sites that say nothing to a diagnosis.
            shown: leaves out what was measured for the diagnosis only.
        """
        if not self._rank.has_own:
            return
        # Of many processes, the first has what all have in common, and is the one to judge it.
        is_judge = self._announcer is not None and self._rank.is_first
        live = self._announcer.live if self._announcer is not None and is_judge else None

        def complete() -> Reading | None:
            reading = None
            try:
                reading = make_reading()
            finally:
                if live is not None:
                    live.take(Less(unseen.__contains__)(reading) if reading and unseen else reading)
            return None if reading is None else self._grouping.attach(shown(reading))

        if self._pipeline is not None:
            self._announce()
            if live is not None:
                live.expect()
            if not self._pipeline.submit(complete, rows) and live is not None:
                live.take(None)
            if self._run is not None and not self._run.has_sites:
                self._tell_sites()

    def _last_step(self) -> int:
        return 0 if self._capture is None else self._capture.next_step - 1

    def _must_stop(self) -> bool:
        """Whether training is to stop; never for one of many processes, which would hang."""
        if self._announcer is None or not self._announcer.should_stop:
            return False
        if self._rank.is_one_of_many:
            self._spokesman.remark(
                "stop_on= is not followed in a training of several processes: the one that stopped "
                "would leave the others waiting. What was found is in monitor.findings of rank 0."
            )
            return False
        return True

    def _announce(self) -> None:
        """Say what was found; on the thread that trains."""
        if self._announcer is not None:
            self._announcer.announce()

    def _tell_sites(self) -> None:
        """Enter what is known of the sites into the run's description."""
        with self._unharmed():
            infos = [i for c in (self._capture, self._recorder) if c is not None for i in c.infos()]
            if self._run is not None:
                self._run.tell_sites(infos)

    @contextmanager
    def _unharmed(self) -> Iterator[None]:
        """Keep training from our own faults, but not from the user's mistakes."""
        try:
            yield
        except selectors.SelectionError:
            self.close()
            raise
        except Exception as error:
            self._spokesman.fault(error)

    def __getattr__(self, name: str) -> Any:
        # Keras may be imported after the monitor is made; it becomes a callback
        # when it is first asked to behave like one.
        callback = _as_keras_callback(type(self))
        if callback is type(self) or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.__class__ = callback
        return getattr(self, name)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def _as_keras_callback(cls: type[Monitor]) -> type[Monitor]:
    """The class as a Keras callback too, if Keras is in use; it is not imported for this."""
    if "keras" not in sys.modules:
        return cls
    from gradwatch.capture.keras.callback import as_callback

    return as_callback(cls)


def _losses(logs: Mapping[str, float]) -> dict[str, float]:
    """The numbers among what an epoch ended with."""
    return {name: float(x) for name, x in logs.items() if isinstance(x, int | float)}
