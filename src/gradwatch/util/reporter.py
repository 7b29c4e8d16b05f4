"""Messages to the user during training: each once, never an exception."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

logger = logging.getLogger("gradwatch")


class GradwatchWarning(UserWarning):
    """Something the user should know; training goes on."""


def say(message: str) -> None:
    """Warn, and never raise, even where warnings are turned into errors."""
    try:
        warnings.warn(message, GradwatchWarning, stacklevel=2)
    except GradwatchWarning:
        logger.warning(message)


class Reporter:
    """Tells the user each thing once, and counts repetitions.

    After an internal error, further messages may be its consequences and go to the log only.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._has_failed = False

    def notice(self, message: str) -> None:
        """Warn about this, unless it was warned about before."""
        self._counts[message] = self._counts.get(message, 0) + 1
        if self._counts[message] == 1:
            if self._has_failed:
                logger.warning(message)
            else:
                say(message)

    def internal_error(self, error: BaseException) -> None:
        """Report an exception of gradwatch's own."""
        self.notice(
            "Internal error in gradwatch; continuing without this measurement. Training is not "
            f"affected. {type(error).__name__}: {error}"
        )
        self._has_failed = True

    @contextmanager
    def guard(self, *raised: type[Exception]) -> Iterator[None]:
        """Report exceptions as internal errors, and do not raise them.

        Args:
            raised: exceptions that are raised nevertheless: errors of the caller.

        Example:

        >>> from gradwatch.util import Reporter
        >>> with Reporter().guard(KeyError):
        ...     {}["a"]
        Traceback (most recent call last):
        KeyError: 'a'
        """
        try:
            yield
        except raised:
            raise
        except Exception as error:
            with suppress(Exception):  # Not even the report may stop training.
                self.internal_error(error)
