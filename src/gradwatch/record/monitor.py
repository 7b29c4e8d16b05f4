"""The one object that users handle: a Keras callback, and the methods that loops call."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from gradwatch.capture import guarded
from gradwatch.capture.loop import LoopSource
from gradwatch.core import schedule as schedules
from gradwatch.core import select as selectors
from gradwatch.diagnosis import DiagnosisSpec, Finding, Severity, Verdict
from gradwatch.record.fit_source import FitSource
from gradwatch.record.keras_callback import KerasCallback, Logs
from gradwatch.record.loop_interface import LoopInterface
from gradwatch.record.monitor_arguments import MONITOR_SYNONYMS, as_sinks
from gradwatch.record.session import Session
from gradwatch.sinks import Sink
from gradwatch.store.remote import Remote
from gradwatch.util import suggests_arguments
from gradwatch.util.display import notebook
from gradwatch.util.json_type import Json
from gradwatch.watches import Watch
from gradwatch.watches.budget import Cost

M = TypeVar("M", bound="Monitor")


class Monitor(KerasCallback, LoopInterface):
    """Watches a model while it trains, in Keras's `fit` or in a loop of your own.

    Without further arguments it summarises every weight and every gradient of the training step,
    as often as that slows training down by less than 1 %. It takes histograms once an epoch,
    keeps all of it in the run's directory, and writes TensorBoard event files and a table at each
    epoch's end. A diagnosis reports what is wrong with the training. Training itself is not
    changed: not its results, not its random numbers, not the model. An internal error of the
    monitor is reported once and never stops it. A copy, by `copy` or `pickle`, is a new monitor
    with the same arguments. A monitor that nobody holds any more closes its run.

    In `fit`, pass it as a callback. In a loop, call `record`, or `measure` inside
    a compiled step; see also `tape` for TensorFlow and `gradwatch.watch` for torch.

    Args:
        directory: where the run is kept; `runs/<date>-<time>` by default. A run that is
            there already is continued from a later step by the same model. Another training,
            or one while another process is writing there, is kept in `<directory>-2`, see
            docs/files.md; processes that train together share it, see docs/distributed.md. A
            URL such as `"s3://bucket/runs/a"`, or a `gradwatch.store.Remote`: sealed segments
            are uploaded there, see docs/remote.md.
        every: how often to measure, see `gradwatch.schedule`: a number of batches,
            `"epoch"`, a list of steps, ... Instead of a budget. It is for gradients and weights, or
            what `layers` or `watch` name. What only the diagnosis wants is measured at as many
            of these steps as a budget of 0.01 allows.
        budget: how much measuring may slow training down, as a fraction; 0.01 if neither
            this nor `every` is given. The monitor measures its cost, on this
            machine and model, and measures every step, every 2nd, 5th, 10th, 20th, ...
            accordingly; one step of each epoch, too, unless epochs are very short. See `cost`.
        layers: which layers to measure, see `gradwatch.select`: indices, names,
            patterns, types, ...; all by default.
        watch: what to measure in detail, instead of `layers`: a list of
            `gradients(...)`, `weights(...)`, `updates(...)`, `applied_gradients(...)`,
            `outputs(...)`, `output_gradients(...)`, `optimizer_state(...)`, `pictures(...)`,
            `spectral_norms(...)`, `losses(...)`, `scalars(...)`.
        sinks: where readings go: a list of `Store()`, `TensorBoard()`, `Console()`,
            `CSV()` or other `Sink`s, or names of those that other packages bring; the first
            three by default.
        diagnose: False for no diagnosis; or a list of names of rules, of
            `gradwatch.silence(...)` and of thresholds by rule. Without `layers` and
            `watch`, the monitor also measures what the rules need: updates, outputs, inputs and
            targets.
        on_finding: a function that is called with each `Finding`, on the thread that trains.
        stop_on: `"warning"` or `"error"` to end training cleanly when a finding as bad as that
            is made: `fit` ends after that step, and in a loop `should_stop` is True.
        config: the settings of this run, such as `{"learning_rate": 1e-3}`: a mapping, which may be
            nested, an `argparse.Namespace` or a dataclass. Lists of runs show them as columns.
        tags: words to find the run by; one, or a list.
        note: a remark on the run.

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

    @suggests_arguments(MONITOR_SYNONYMS)
    def __init__(
        self,
        directory: str | Path | Remote | None = None,
        *,
        every: schedules.Spec | None = None,
        budget: float | None = None,
        layers: Sequence[selectors.Spec] | selectors.Spec | None = None,
        watch: Sequence[Watch] | Watch | None = None,
        sinks: Sequence[Sink | str] | Sink | str | None = None,
        diagnose: DiagnosisSpec = True,
        on_finding: Callable[[Finding], object] | None = None,
        stop_on: Severity | str | None = None,
        config: object = None,
        tags: Sequence[str] | str = (),
        note: str = "",
    ) -> None:
        before = set(vars(self))
        self._arguments: dict[str, Any] = {
            "directory": directory,
            "every": every,
            "budget": budget,
            "layers": layers,
            "watch": watch,
            "sinks": sinks,
            "diagnose": diagnose,
            "on_finding": on_finding,
            "stop_on": stop_on,
            "config": config,
            "tags": tags,
            "note": note,
        }
        self._session = Session(**self._arguments)
        self._reporter = self._session.reporter
        super().__init__(LoopSource(self._session))
        self._fit = FitSource(self._session)
        self._session.sources = (self._fit, self._loop)
        self._own = {*vars(self), "_own", "_model", "params"} - before

    @property
    def directory(self) -> Path:
        """Where the run is kept on this machine."""
        return self._session.directory

    def widget(self, height: int = 640) -> Any:
        """The viewer's pages of this run in a notebook, live while it trains.

        Display it before training begins: it shows the run as soon as there is one. See
        `Run.widget` of `gradwatch.open`, and docs/notebooks.md.

        Args:
            height: in pixels.
        """
        # A monitor that nobody holds closes its run: the widget must not hold it.
        session = weakref.ref(self._session)
        latest: list[Path | None] = [None]

        def find() -> Path | None:
            known = session()
            if known is not None:
                latest[0] = known.recorded_in
            return latest[0]

        return notebook().live_widget(find, lambda: session() is not None, height)

    @property
    def cost(self) -> Cost:
        """The cost of measuring, as far as it is known by now; see `gradwatch.watches.Cost`."""
        return self._session.pacer.cost()

    def cost_facts(self) -> dict[str, Json]:
        """The same for JSON; times in seconds, None where not known."""
        return self.cost.facts()

    @property
    def findings(self) -> list[Finding]:
        """The findings so far, the worst first; see `gradwatch.Finding`."""
        alerts = self._session.alerts
        return [] if alerts is None else list(alerts.diagnosis.findings)

    @property
    def verdict(self) -> Verdict:
        """Whether the training has learned so far; see `gradwatch.diagnosis.Verdict`."""
        alerts = self._session.alerts
        return Verdict() if alerts is None else alerts.diagnosis.verdict

    @property
    @guarded("looking whether to stop", "nothing; training goes on", bool)
    def should_stop(self) -> bool:
        """Whether something was found for which a loop is to stop, by `stop_on`."""
        return self._session.should_stop()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @guarded("closing the run", "perhaps the last steps", as_builtin_errors=False)
    def close(self) -> None:
        """Write out everything, within 2 seconds, and release the files."""
        self._session.close()

    @guarded("reading the model when fit began", "this fit", as_builtin_errors=False)
    def on_train_begin(self, logs: Logs = None) -> None:
        params = self.params or {}
        self._fit.begin(self._model, params.get("steps"), is_quiet=params.get("verbose") == 0)

    @guarded("opening the run", "this fit, or this epoch", as_builtin_errors=False)
    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._fit.begin_epoch(epoch + 1)

    @guarded("preparing a step", "that step", as_builtin_errors=False)
    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        self._fit.begin_batch(batch)

    @guarded("reading the logs of a step", "the logs of that step", as_builtin_errors=False)
    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self._fit.end_batch(batch, logs or {})

    @guarded("reading the logs of an epoch", "the logs of that epoch", as_builtin_errors=False)
    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._fit.end_epoch(epoch + 1, logs or {})

    @guarded("taking the result of an evaluation", "that result", as_builtin_errors=False)
    def on_test_end(self, logs: Logs = None) -> None:
        self._fit.end_evaluation(logs or {})

    @guarded("ending the run", "perhaps the last steps", as_builtin_errors=False)
    def on_train_end(self, logs: Logs = None) -> None:
        self._fit.end()

    # A copy begins a run of its own: sessions have threads and files.

    def __reduce__(self) -> tuple[Any, ...]:
        # All of it as the state: a function among the arguments may refer to the monitor.
        return _blank, (type(self),), (self._arguments, self._attributes())

    def __setstate__(self, state: tuple[dict[str, Any], dict[str, Any]]) -> None:
        arguments, attributes = state
        Monitor.__init__(self, **arguments)
        vars(self).update(attributes)

    def __copy__(self) -> Self:
        arguments = dict(self._arguments)
        if arguments["sinks"] is not None:
            arguments["sinks"] = [copy.copy(sink) for sink in as_sinks(arguments["sinks"])]
        other = _blank(type(self))
        other.__setstate__((arguments, self._attributes()))
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # The arguments are the user's own objects: layers, functions, streams.
        other = memo[id(self)] = self.__copy__()
        for name, value in self._attributes().items():
            with suppress(Exception):  # One that cannot be copied is shared.
                vars(other)[name] = copy.deepcopy(value, memo)
        return other

    def _attributes(self) -> dict[str, Any]:
        """Those that a subclass or the user has set."""
        return {name: x for name, x in vars(self).items() if name not in self._own}


def _blank(cls: type[M]) -> M:
    return cls.__new__(cls)
