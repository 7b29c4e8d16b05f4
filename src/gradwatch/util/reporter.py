"""Messages to the user during training: each once, never an exception."""

import logging
import warnings
from collections import deque
from collections.abc import Callable, Iterator
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
    """Tells the user what happens in gradwatch, on the thread that trains.

    After an internal error, further notices may be its consequences and go to the log only.
    """

    def __init__(self, show: Callable[[str], object] = say) -> None:
        self.show = show
        self._noticed: set[str] = set()
        self._posted: deque[str] = deque()
        self._has_failed = False

    def notice(self, message: str) -> None:
        """Show this, unless it was shown before."""
        if message not in self._noticed:
            self._noticed.add(message)
            if self._has_failed:
                logger.warning(message)
            else:
                self.show(message)

    def internal_error(self, error: BaseException) -> None:
        """Report an exception of gradwatch's own."""
        self.notice(
            "Internal error in gradwatch; continuing without this measurement. Training is not "
            f"affected. {type(error).__name__}: {error}"
        )
        self._has_failed = True

    def post(self, message: str) -> None:
        """Keep a message, from any thread, until the thread that trains calls `deliver`."""
        self._posted.append(message)

    def deliver(self) -> None:
        while self._posted:
            with suppress(Exception):
                self.show(self._posted.popleft())

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Report exceptions as internal errors, and do not raise them."""
        try:
            yield
        except Exception as error:
            with suppress(Exception):  # Not even the report may stop training.
                self.internal_error(error)
