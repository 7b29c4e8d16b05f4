"""How gradwatch tells the user something during training: once, and without harm."""

from __future__ import annotations

import logging
import warnings

logger = logging.getLogger("gradwatch")


class GradwatchWarning(UserWarning):
    """Something the user should know; training goes on."""


def say(message: str) -> None:
    """Warn, and never raise, even where warnings are turned into errors."""
    try:
        warnings.warn(message, GradwatchWarning, stacklevel=2)
    except GradwatchWarning:
        logger.warning(message)


class Spokesman:
    """Says each thing once and counts the rest.

    After a fault of ours, all else may be a consequence of it, and is only logged.
    """

    def __init__(self) -> None:
        self._said: dict[str, int] = {}
        self._has_failed = False

    def remark(self, message: str) -> None:
        """Say this unless it was said before."""
        self._said[message] = self._said.get(message, 0) + 1
        if self._said[message] == 1:
            if self._has_failed:
                logger.warning(message)
            else:
                say(message)

    def fault(self, error: BaseException) -> None:
        """Say that something of ours failed."""
        self.remark(
            f"gradwatch failed at something and goes on without it; training is not affected. "
            f"{type(error).__name__}: {error}"
        )
        self._has_failed = True
