"""Messages to the user during training: each once, never an exception."""

import logging
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from gradwatch import compat

logger = logging.getLogger("gradwatch")


_FRAMEWORKS = {
    "gradwatch",
    "keras",
    "tensorflow",
    "torch",
    "jax",
    "threading",
    "contextlib",
    "click",
}
"""Packages whose lines a warning does not point at."""


class GradwatchWarning(UserWarning):
    """Something the user should know; training goes on."""


def say(message: str) -> None:
    """Warn, and never raise, even where warnings are turned into errors.

    The warning points at the user's line that led here, if there is one on this thread.
    """
    try:
        level = _level_of_user()
        if level is None:
            warnings.warn_explicit(message, GradwatchWarning, "<gradwatch>", 1)
        else:
            warnings.warn(message, GradwatchWarning, stacklevel=level)
    except Exception:
        with suppress(Exception):
            logger.warning(message)


def _level_of_user() -> int | None:
    """Which frame, counted from the caller as `warnings` does, is code of the user."""
    frame: FrameType | None = sys._getframe(1)
    level, package = 1, ""
    while frame is not None:
        inner, package = package, str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in _FRAMEWORKS:
            return None if inner == "click" else level  # The command `gradwatch` itself.
        frame, level = frame.f_back, level + 1
    return None


def described(error: BaseException) -> str:
    """An exception in words; never raises, whatever the exception's own text does."""
    name = type(error).__name__
    try:
        return f"{name}: {error}".removesuffix(": ")
    except Exception:
        return name


class Reporter:
    """Tells the user what happens in gradwatch, on the thread that trains.

    After an internal error, further notices may be its consequences and go to the log only.
    """

    def __init__(self, show: Callable[[str], object] = say) -> None:
        self.show = show
        self._noticed: set[str] = set()
        self._posted: deque[str] = deque()
        self._failures: set[tuple[str, str]] = set()

    def notice(self, message: str) -> None:
        """Show this, unless it was shown before."""
        if message not in self._noticed:
            self._noticed.add(message)
            if self._failures:
                logger.warning(message)
            else:
                self.show(message)

    def internal_error(self, error: BaseException, doing: str, lost: str) -> None:
        """Report an exception inside gradwatch, once for each thing that fails; never raises.

        Args:
            error: the exception; perhaps one that an object of the user raised when it was read.
            doing: what gradwatch was doing: "measuring a step".
            lost: what is therefore not recorded: "that step".
        """
        with suppress(Exception):
            if (doing, lost) not in self._failures:
                if isinstance(error, compat.UnsupportedVersionError):
                    self.notice(f"{error} Not recorded: {lost}. Training is not affected.")
                    return
                self.notice(
                    f"Internal error in gradwatch while {doing}. Not recorded: {lost}. "
                    f"Training is not affected. {described(error)}"
                )
                self._failures.add((doing, lost))

    def post(self, message: str) -> None:
        """Keep a message, from any thread, until the thread that trains calls `deliver`."""
        self._posted.append(message)

    def deliver(self) -> None:
        while self._posted:
            with suppress(Exception):
                self.show(self._posted.popleft())

    @contextmanager
    def guard(self, doing: str, lost: str) -> Iterator[None]:
        """Report exceptions as internal errors, and do not raise them."""
        try:
            yield
        except Exception as error:
            self.internal_error(error, doing, lost)
