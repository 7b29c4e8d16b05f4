"""The user's mistakes, which are to be heard, told from faults of ours, which are not."""

from __future__ import annotations

from collections.abc import Callable

from gradwatch.select import SelectionError


class MisuseError(Exception):
    """A call that cannot be meant: it is raised, where a fault of ours only warns."""


class WrongTypeError(MisuseError, TypeError):
    """An argument of a type that nothing can be done with."""


class WrongValueError(MisuseError, ValueError):
    """Arguments that do not fit each other."""


class WrongPlaceError(MisuseError, RuntimeError):
    """A call from inside a compiled function that belongs outside, or the reverse."""


class Guard:
    """Keeps training from our own faults, but not from the user's mistakes.

    Args:
        fault: told of an exception of ours.

    Example:

    >>> from gradwatch.capture.loop.misuse import Guard
    >>> with Guard(print):
    ...     1 / 0
    division by zero
    """

    def __init__(self, fault: Callable[[Exception], None]) -> None:
        self._fault = fault

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if isinstance(error, MisuseError | SelectionError):
            # As one of Python's own: AutoGraph wraps up any other on its way to the user.
            plain = next(t for t in (TypeError, ValueError, RuntimeError) if isinstance(error, t))
            raise plain(str(error)) from None
        if not isinstance(error, Exception):
            return False
        self._fault(error)
        return True
