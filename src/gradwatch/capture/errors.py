"""The user's mistakes, which are to be heard, told from faults of ours, which are not."""

from __future__ import annotations

from gradwatch.capture.guard import MisuseError


class WrongTypeError(MisuseError, TypeError):
    """An argument of a type that nothing can be done with."""


class WrongValueError(MisuseError, ValueError):
    """Arguments that do not fit each other."""


class WrongPlaceError(MisuseError, RuntimeError):
    """A call from inside a compiled function that belongs outside, or the reverse."""
