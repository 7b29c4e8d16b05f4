"""The doors through which training enters gradwatch, out of which no fault of ours comes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, TypeVar

from gradwatch.core.select import SelectionError

F = TypeVar("F", bound=Callable[..., Any])

Nothing = type(None)


class MisuseError(Exception):
    """A call that cannot be meant: it is raised, where a fault of ours only warns."""


def guarded(otherwise: Callable[[], Any] = Nothing, *, plainly: bool = True) -> Callable[[F], F]:
    """Make a method one that training may call: it never raises for a fault of ours.

    Mistakes of the user's are raised all the same. The object is told of a fault by its
    `_fault(error)`.

    Args:
        otherwise: makes what is returned after a fault; one of Python's own types.
        plainly: raise a mistake as one of Python's own exceptions, since AutoGraph wraps up
            any other on its way to the user.

    Example:

    >>> from gradwatch.capture.guard import guarded
    >>> class Watch:
    ...     _fault = staticmethod(print)
    ...     @guarded(bool)
    ...     def is_due(self, step):
    ...         return 1 / step == 1
    >>> Watch().is_due(0)
    division by zero
    False
    """

    def decorate(method: F) -> F:
        @wraps(method)
        def door(self: Any, *args: Any, **kwargs: Any) -> Any:
            # Nothing of ours is called outside of this.
            try:
                return method(self, *args, **kwargs)
            except (MisuseError, SelectionError) as mistake:
                if not plainly:
                    raise
                for kind in (TypeError, ValueError, RuntimeError):
                    if isinstance(mistake, kind):
                        raise kind(str(mistake)) from None
                raise
            except Exception as error:
                with suppress(Exception):  # Not even this may stop training.
                    self._fault(error)
            return otherwise()

        return door  # type: ignore[return-value]

    return decorate
