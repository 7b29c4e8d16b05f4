"""What a pacer asks of a session, without holding it."""

import weakref
from collections.abc import Callable
from typing import Protocol, TypeVar

from gradwatch.sinks import Pipeline


class Recording(Protocol):
    """A session, as far as it matters here."""

    pipeline: Pipeline | None


AnyRecording = TypeVar("AnyRecording", bound=Recording)


def quiet_and_hasten(
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
