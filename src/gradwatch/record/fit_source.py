"""Recording Keras's `fit`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gradwatch import compat
from gradwatch.core import KerasModel, SelectionError, SiteInfo
from gradwatch.parallel import ranks
from gradwatch.record.session import Session

if TYPE_CHECKING:
    from gradwatch.capture.keras import FitCapture


class FitSource:
    """Follows `fit` from hook to hook: has its steps measured, opens and closes the run."""

    reopens = False

    def __init__(self, session: Session) -> None:
        self._session = session
        self._capture: FitCapture | None = None
        self._is_measuring = False
        self._is_stopped = False
        """Whether the run was closed during `fit`; it is not opened again before the next."""
        self._ended_epoch: tuple[int, dict[str, float]] | None = None
        self._batches: int | None = None
        self._epoch = 0
        self._evaluations: list[Mapping[str, Any]] = []
        """The results of evaluations since the epoch began, `fit`'s own validation among them."""

    def begin(self, model: KerasModel, batches: int | None, *, is_quiet: bool) -> None:
        """A `fit` begins; `batches`, the number in an epoch, is None if not known."""
        session = self._session
        self._ended_epoch = None
        self._is_measuring = False
        self._batches, self._evaluations = batches, []
        session.close()
        session.is_quiet = is_quiet
        self._is_stopped = False
        # A fit that is not recorded must not count as one of the model before.
        known, self._capture = self._capture, None
        keras = sys.modules.get("keras")
        # Keras 2 has no `keras.Layer`.
        if not isinstance(model, getattr(keras, "Layer", ())):
            session.reporter.notice(
                "fit is recorded for models of Keras 3. Received: "
                f"{type(model).__module__}.{type(model).__name__}. Nothing is recorded. "
                "Record a loop with monitor.tape() or monitor.record() instead."
            )
            return
        backend = sys.modules["keras"].backend.backend()
        why = compat.unsupported("keras") or compat.unsupported(backend)
        if why is not None:
            session.reporter.notice(f"{why} Nothing is recorded.")
            return
        from gradwatch.capture.keras import FitCapture, refusal

        why = refusal(model)
        if why is not None:
            session.reporter.notice(why)
            return
        if known is None or not known.serves(model):
            if known is None or not known.is_of(model):
                session.forget()
            # The same model, if it was compiled again, goes on where it was.
            steps_before = 0 if known is None else known.steps_of(model)
            known = FitCapture(
                model,
                session.timetable,
                session.pacer,
                session.submit,
                session.reporter,
                session.announcements.say,
                steps_before,
            )
        self._capture = known
        self._is_measuring = session.may_measure(session.timetable)

    def begin_epoch(self, epoch: int) -> None:
        """Epoch `epoch`, counted from 1, begins."""
        self._report_ended_epoch()
        self._send_evaluations({})
        self._epoch = epoch
        if self._is_measuring and self._capture is not None:
            if self._capture.begin_epoch(epoch, self._batches):
                self._begin_attempt()
            if not self._is_stopped:
                self._session.open(self._capture)

    def _begin_attempt(self) -> None:
        """Training has gone back to a checkpoint: close the run, so that another attempt begins."""
        state = self._is_measuring, self._is_stopped
        self._session.close()
        self._is_measuring, self._is_stopped = state

    def begin_batch(self, batch: int) -> None:
        """The batch with that index in the epoch begins."""
        if not self._is_measuring or self._capture is None:
            return
        try:
            # First, and whatever else fails: all processes must measure the same steps.
            self._capture.begin_batch(batch)
        except SelectionError:
            self._session.close()
            raise
        if self._session.should_stop():
            self._capture.stop()

    def end_batch(self, batch: int, logs: Mapping[str, Any]) -> None:
        """The batch has ended; may be called on a thread of Keras's."""
        if self._capture is None:
            return
        self._capture.end_batch(batch)
        self._capture.report(batch, logs)

    def end_evaluation(self, logs: Mapping[str, Any]) -> None:
        """An evaluation has ended: the validation that belongs to `fit`, or another within it."""
        self._evaluations.append(dict(logs))

    def end_epoch(self, epoch: int, logs: Mapping[str, Any]) -> None:
        self._send_evaluations(logs)
        if self._capture is not None:
            self._capture.send_epoch(epoch, logs)
        # Keras's progress bar writes its last line after this; so the report waits.
        self._ended_epoch = (epoch, dict(logs))

    def _send_evaluations(self, logs: Mapping[str, Any]) -> None:
        """Send the results of evaluations, except that which the logs of the epoch have."""
        evaluations, self._evaluations = self._evaluations, []
        for each in evaluations:
            # Of two NaN, neither equals the other; their texts do.
            is_validation = each and all(
                str(logs.get(f"val_{k}")) == str(v) for k, v in each.items()
            )
            if not is_validation and self._capture is not None:
                self._capture.send_epoch(self._epoch, each, "test_")

    def end(self) -> None:
        self._report_ended_epoch()
        self._send_evaluations({})
        with self._session.reporter.guard("counting the last steps", "nothing"):
            if self._capture is not None:
                self._capture.end()
        self._is_measuring = False
        self._session.close()
        self._session.is_quiet = False

    def stop(self) -> None:
        """The run is closed: measure no more of this `fit`."""
        self._is_stopped = True
        if self._capture is not None:
            self._capture.send_reports(everything=True, is_training=False)
        rank = ranks.current()
        if self._is_measuring and rank.is_one_of_many and rank.measures_alike:
            # The others run measured steps, and wait in them for this process.
            return
        self._is_measuring = False
        if self._capture is not None:
            self._capture.release()

    def infos(self) -> list[SiteInfo]:
        return [] if self._capture is None else self._capture.infos()

    def _report_ended_epoch(self) -> None:
        if self._ended_epoch is not None:
            epoch, logs = self._ended_epoch
            self._ended_epoch = None
            with self._session.reporter.guard("ending an epoch", "the numbers of that epoch"):
                self._session.end_epoch(epoch, logs)
