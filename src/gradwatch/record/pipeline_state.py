"""What a pacer asks of a session, without holding it."""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from gradwatch.core import Schedule
from gradwatch.sinks import Pipeline
from gradwatch.watches import Watch
from gradwatch.watches.budget import Pacer, ThinningPacer


class Recording(Protocol):
    """A session, as far as it matters here."""

    pipeline: Pipeline | None


AnyRecording = TypeVar("AnyRecording", bound=Recording)


def make_pacer(
    budget: float | None,
    every: Schedule | None,
    diagnosis_budget: float,
    session: weakref.ref[AnyRecording],
) -> Pacer:
    """The pacer of a session whose steps are the user's choice, or that of a budget."""
    quiet, hasten = _quiet_and_hasten(session)
    if every is None:
        return Pacer(budget, quiet, hasten)
    return ThinningPacer(diagnosis_budget, every, quiet, hasten, _has_arrived(session))


def epochs_within_budget(watches: Sequence[Watch], pacer: Pacer) -> list[Watch]:
    """The watches, with histograms of those epochs for which the budget has room."""
    return [replace(watch, histogram=pacer.epochs) for watch in watches]


def _quiet_and_hasten(
    session: weakref.ref[AnyRecording],
) -> tuple[Callable[[], bool], Callable[[], None]]:
    """Whether all that was measured is written; and a function that asks for that to be soon."""

    def pipeline() -> Pipeline | None:
        own = session()
        return None if own is None else own.pipeline

    def hasten() -> None:
        if (still_open := pipeline()) is not None:
            still_open.flush_soon()

    return lambda: (still_open := pipeline()) is None or still_open.is_quiet, hasten


def _has_arrived(session: weakref.ref[AnyRecording]) -> Callable[[], bool]:
    """A function that is asked from step to step until it says that the reading of the first of
    them has arrived from the device; then it is about another one."""
    awaited: int | None = None

    def is_there() -> bool:
        nonlocal awaited
        own = session()
        pipeline = None if own is None else own.pipeline
        if pipeline is None:
            awaited = None
            return True
        awaited = pipeline.submitted if awaited is None else awaited
        if not pipeline.has_made(awaited):
            return False
        awaited = None
        return True

    return is_there
