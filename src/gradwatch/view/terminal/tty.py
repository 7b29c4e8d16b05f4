"""A terminal taken over for a while, and given back as it was, whatever happens."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import TextIO

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
"""The other screen, no cursor, and no wrapping: a name of doubtful width stays on its line."""
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_FALLBACK = os.terminal_size((80, 24))


class Terminal:
    """The terminal that stdout is; use it as a context.

    What is on the screen, the cursor and the line discipline are restored on the way out:
    by an exception, Ctrl-C or SIGTERM too, and around a stop by Ctrl-Z.

    Args:
        output: a terminal.
        keyboard: where keys come from, if that is a terminal.
    """

    def __init__(self, output: TextIO | None = None, keyboard: TextIO | None = None) -> None:
        self._output = sys.stdout if output is None else output
        self._keyboard = sys.stdin if keyboard is None else keyboard
        self._wake_read, self._wake_write = -1, -1
        self._lines: list[str] = []
        self._size = _FALLBACK
        self._mode: list[object] | None = None
        self._is_in = False
        self._end: int | None = None

    def __enter__(self) -> Terminal:
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._handlers = {
            getattr(signal, name): signal.signal(getattr(signal, name), handler)
            for name, handler in (
                ("SIGWINCH", self._resized),
                ("SIGINT", self._asked_to_end),
                ("SIGTERM", self._asked_to_end),
                ("SIGHUP", self._asked_to_end),
                ("SIGTSTP", self._stopped),
            )
            if hasattr(signal, name)
        }
        try:
            self._take()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # A second Ctrl-C, as people press it, must not leave the terminal half restored.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._give_back()
        finally:
            pipe = self._wake_read, self._wake_write
            self._wake_read = self._wake_write = -1
            for end in pipe:
                os.close(end)
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    @property
    def size(self) -> os.terminal_size:
        """How many columns and lines it has now."""
        with contextlib.suppress(OSError, ValueError):
            size = os.get_terminal_size(self._output.fileno())
            if size.columns and size.lines:
                return size
        return _FALLBACK

    def paint(self, lines: Sequence[str], size: os.terminal_size) -> None:
        """Show lines, of which those that have changed are written, all at once."""
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

    def wake(self) -> None:
        """End a `wait`; from any thread or signal."""
        with contextlib.suppress(OSError):  # full: it will wake as it is; closed: it is over
            os.write(self._wake_write, b"\0")

    def wait(self, seconds: float) -> bytes:
        """What was typed, as soon as anything is, or somebody calls `wake`; b"" if nothing.

        Raises:
            KeyboardInterrupt: after Ctrl-C.
            SystemExit: after another signal to end.
        """
        sources = [self._wake_read] if self._mode is None else [self._wake_read, self._fd()]
        ready, _, _ = select.select(sources, [], [], seconds)
        self._end_if_asked()
        if self._wake_read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_read, 4096)
        if self._mode is not None and self._fd() in ready:
            typed = os.read(self._fd(), 4096)
            if not typed:
                raise EOFError("The terminal is gone.")
            return typed
        return b""

    def _take(self) -> None:
        self._is_in = True
        self._write(_ENTER)
        self._lines = []
        with contextlib.suppress(ImportError, OSError, ValueError):  # Windows; no keyboard
            import termios
            import tty

            if self._keyboard.isatty():
                self._mode = termios.tcgetattr(self._fd())
                # Not raw: Ctrl-C and Ctrl-Z stay signals.
                tty.setcbreak(self._fd())

    def _give_back(self) -> None:
        if not self._is_in:
            return
        self._is_in = False
        if self._mode is not None:
            import termios

            with contextlib.suppress(termios.error):  # it is gone
                termios.tcsetattr(self._fd(), termios.TCSAFLUSH, self._mode)  # type: ignore[arg-type]
            self._mode = None
        with contextlib.suppress(OSError):
            self._write(_LEAVE)

    def _write(self, text: str) -> None:
        self._output.write(text)
        self._output.flush()

    def _fd(self) -> int:
        return self._keyboard.fileno()

    def _resized(self, number: int, frame: FrameType | None) -> None:
        self.wake()

    def _asked_to_end(self, number: int, frame: FrameType | None) -> None:
        # Not raised here: in the middle of an import, say, an exception may get lost.
        is_impatient = self._end is not None
        self._end = number
        self.wake()
        if is_impatient:
            self._end_if_asked()

    def _end_if_asked(self) -> None:
        if self._end == signal.SIGINT:
            raise KeyboardInterrupt
        if self._end is not None:
            raise SystemExit(128 + self._end)

    def _stopped(self, number: int, frame: FrameType | None) -> None:
        self._give_back()
        with _handled(number, signal.SIG_DFL):
            os.kill(os.getpid(), number)
            # Here it goes on when the shell brings it back.
        self._take()
        self.wake()


@contextlib.contextmanager
def _handled(number: int, handler: signal.Handlers) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
