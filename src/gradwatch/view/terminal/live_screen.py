"""Takes over a terminal and restores it, whatever happens."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TextIO

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
"""The alternate screen, no cursor, and no wrapping: a name of doubtful width stays in its line."""
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_FALLBACK, _UNKNOWN = os.terminal_size((80, 24)), os.terminal_size((0, 0))
_TICK = 0.05
"""Seconds between two looks for news and signals while no key is pressed."""


class LiveScreen:
    """The terminal of stdout, as a context manager.

    The screen, the cursor and the terminal's mode are restored at the end, also after an
    exception, Ctrl-C or SIGTERM, and while the process is stopped by Ctrl-Z.

    rich renders the lines; this class writes those that have changed, because `rich.live`
    would send the whole screen again for each key and each new step.
    """

    def __init__(self, output: TextIO | None = None, keyboard: TextIO | None = None) -> None:
        self.output = sys.stdout if output is None else output
        self._keyboard = sys.stdin if keyboard is None else keyboard
        self._lines: list[str] = []
        self._size = _UNKNOWN
        self._mode: list[object] | None = None
        self._is_taken = False
        self._end_signal: int | None = None

    def __enter__(self) -> LiveScreen:
        handlers = dict.fromkeys(("SIGINT", "SIGTERM", "SIGHUP"), self._request_end)
        handlers["SIGTSTP"] = self._stop
        self._handlers = {
            getattr(signal, name): signal.signal(getattr(signal, name), handler)
            for name, handler in handlers.items()
            if hasattr(signal, name)
        }
        try:
            self._take()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # A second Ctrl-C must not leave the terminal half restored.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._restore()
        finally:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    @property
    def size(self) -> os.terminal_size:
        with contextlib.suppress(OSError, ValueError):
            size = os.get_terminal_size(self.output.fileno())
            if size.columns and size.lines:
                return size
        return _FALLBACK

    def paint(self, lines: Sequence[str], size: os.terminal_size) -> None:
        """Show lines; only those that have changed are written, all at once."""
        changes = []
        if size != self._size or len(lines) != len(self._lines):
            self._size, self._lines = size, []
            changes.append("\x1b[2J")
        for i, line in enumerate(lines):
            if i >= len(self._lines) or line != self._lines[i]:
                changes.append(f"\x1b[{i + 1};1H{line}\x1b[K")
        self._lines = list(lines)
        if changes:
            self._write("".join(changes))

    def wait(self, seconds: float, has_news: Callable[[], bool]) -> bytes:
        """Wait for a key, for news, or for another size; returns what was typed.

        Ctrl-C raises KeyboardInterrupt here, and another signal to end raises SystemExit.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            typed = self._read(_TICK)
            self._end_if_requested()
            if typed or has_news() or self.size != self._size:
                return typed
        return b""

    def _read(self, seconds: float) -> bytes:
        if self._mode is None:
            time.sleep(seconds)
            return b""
        ready, _, _ = select.select([self._keyboard], [], [], seconds)
        if not ready:
            return b""
        if typed := os.read(self._keyboard.fileno(), 4096):
            return typed
        raise EOFError("The terminal is gone.")

    def _take(self) -> None:
        self._is_taken = True
        self._lines, self._size = [], _UNKNOWN
        with contextlib.suppress(ImportError, OSError, ValueError):  # Windows; no keyboard
            import termios
            import tty

            if self._keyboard.isatty():
                self._mode = termios.tcgetattr(self._keyboard.fileno())
                # Not raw: Ctrl-C and Ctrl-Z stay signals. It discards what was typed before, so
                # the screen comes after it: a key that answers what is seen is not lost.
                tty.setcbreak(self._keyboard.fileno())
        self._write(_ENTER)

    def _restore(self) -> None:
        if not self._is_taken:
            return
        self._is_taken = False
        if self._mode is not None:
            import termios

            with contextlib.suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(self._keyboard.fileno(), termios.TCSAFLUSH, self._mode)  # type: ignore[arg-type]
            self._mode = None
        with contextlib.suppress(OSError):
            self._write(_LEAVE)

    def _write(self, text: str) -> None:
        self.output.write(text)
        self.output.flush()

    def _request_end(self, number: int, frame: FrameType | None) -> None:
        # Not raised here at once: in the middle of an import, an exception may get lost.
        is_impatient = self._end_signal is not None
        self._end_signal = number
        if is_impatient:
            self._end_if_requested()

    def _end_if_requested(self) -> None:
        if self._end_signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self._end_signal is not None:
            raise SystemExit(128 + self._end_signal)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._restore()
        before = signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        # The process goes on here when the shell continues it.
        signal.signal(number, before)
        self._take()
