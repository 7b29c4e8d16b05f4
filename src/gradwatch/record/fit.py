"""The part of a monitor that Keras's `fit` calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from gradwatch.core import Less, Reading, Site
from gradwatch.diagnosis import Announcer
from gradwatch.parallel import ranks
from gradwatch.record.session import Recording
from gradwatch.util import Reporter
from gradwatch.watches import Timetable
from gradwatch.watches.budget import Pacer

if TYPE_CHECKING:
    from gradwatch.capture.keras import FitCapture


class FitMethods:
    """Follows the course of `fit`, as `capture.keras.callback` reports it.

    All that is declared here is set by the monitor.
    """

    _pacer: Pacer
    _timetable: Timetable
    _recording: Recording
    _announcer: Announcer | None
    _reporter: Reporter
    _shown: Less
    _unharmed: Callable[[], AbstractContextManager[None]]
    _may_measure: Callable[[Timetable], bool]
    close: Callable[[], None]

    _capture: FitCapture | None = None
    _watching = False
    """Whether steps are measured."""
    _is_muted = False
    """Whether nobody takes what is measured any more."""

    def fit_begins(self, model: Any) -> None:
        self._watching = False
        self.close()
        self._is_muted = False
        with self._unharmed():
            from gradwatch.capture.keras import FitCapture, refusal

            why = refusal(model)
            if why is not None:
                self._reporter.notice(why)
                return
            if self._capture is None or not self._capture.serves(model):
                reporter = self._reporter
                self._pacer.forget()
                if self._announcer is not None:
                    self._announcer.live.forget()
                self._capture = FitCapture(
                    model,
                    self._timetable,
                    self._pacer,
                    self._submit_fit,
                    reporter.internal_error,
                    reporter.notice,
                )
            self._watching = self._may_measure(self._timetable)

    def epoch_begins(self, epoch: int, batches: int | None) -> None:
        with self._unharmed():
            if self._watching and self._capture is not None:
                self._capture.begin_epoch(epoch, batches)
                if not self._recording.is_open and not self._is_muted:
                    self._recording.open(self._capture)

    def batch_begins(self, batch: int) -> None:
        with self._unharmed():
            if self._watching and self._capture is not None:
                # First, and whatever else fails: all processes must measure the same steps.
                self._capture.begin_batch(batch)
                self._recording.announce()
                if self._recording.must_stop():
                    self._capture.stop()

    def batch_ends(self, batch: int, logs: Mapping[str, float]) -> None:
        """On a thread of Keras's, perhaps."""
        with self._unharmed():
            loss = logs.get("loss")
            if self._announcer is not None and self._capture is not None and loss is not None:
                self._announcer.live.report(self._capture.reported(batch, float(loss)))

    def epoch_ends(self, epoch: int, logs: Mapping[str, float]) -> None:
        with self._unharmed():
            last_step = 0 if self._capture is None else self._capture.next_step - 1
            self._recording.epoch_end(epoch, logs, last_step)

    def fit_ends(self) -> None:
        with self._unharmed():
            if self._capture is not None:
                self._capture.end()
        self._watching = False
        self.close()

    def _leave_fit(self) -> None:
        """Whoever called `close` wants no more of this `fit`."""
        self._is_muted = True
        rank = ranks.current()
        if self._watching and rank.is_one_of_many and rank.measures_alike:
            # The others run measured steps, and wait in them for this process.
            return
        self._watching = False
        with self._unharmed():
            if self._capture is not None:
                self._capture.release()

    def _submit_fit(
        self, make_reading: Callable[[], Reading], rows: int, unseen: frozenset[Site]
    ) -> None:
        self._recording.submit(make_reading, rows, unseen, self._shown)
