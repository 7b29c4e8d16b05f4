"""Decorator for entry points: exceptions of gradwatch never reach training."""

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, TypeVar

from gradwatch.capture.errors import MisuseError
from gradwatch.core import SelectionError

F = TypeVar("F", bound=Callable[..., Any])

Nothing = type(None)


def guarded(
    doing: str,
    lost: str,
    otherwise: Callable[[], Any] = Nothing,
    *,
    as_builtin_errors: bool = True,
) -> Callable[[F], F]:
    """Make a method safe for training to call: it never raises an internal error.

    Errors of the caller are raised all the same. Internal errors go to the `_reporter` of
    the object.

    Args:
        doing: what the method does, and `lost`, what is not recorded after an internal error; see
            `Reporter.internal_error`.
        lost: see `doing`.
        otherwise: makes the value that is returned after an internal error; a built-in type.
        as_builtin_errors: raise errors of the caller as built-in exceptions, since AutoGraph wraps
            all others.

    Example:

    >>> from gradwatch.capture.guard import guarded
    >>> class PrintingReporter:
    ...     internal_error = staticmethod(print)
    >>> class Watch:
    ...     _reporter = PrintingReporter()
    ...     @guarded("looking", "that step", bool)
    ...     def is_due(self, step):
    ...         return 1 / step == 1
    >>> Watch().is_due(0)
    division by zero looking that step
    False
    """

    def decorate(method: F) -> F:
        @wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            # Nothing of gradwatch is called outside of this `try`.
            try:
                return method(self, *args, **kwargs)
            except (MisuseError, SelectionError) as mistake:
                if not as_builtin_errors:
                    raise
                for kind in (TypeError, ValueError, RuntimeError, ImportError):
                    if isinstance(mistake, kind):
                        raise kind(str(mistake)) from None
                raise
            except Exception as error:
                with suppress(Exception):  # Not even this may stop training.
                    self._reporter.internal_error(error, doing, lost)
            return otherwise()

        return call  # type: ignore[return-value]

    return decorate
