"""A command in a real pseudo-terminal, and what a person would see in it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable

import pyte

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
LONG = 300.0
SHORT = 10.0


class Emulator:
    """Runs a command in a terminal of its own.

    Attributes:
        sent: all that the command has written.
        before: the terminal's settings before it began.
    """

    def __init__(
        self, arguments: list[str], columns: int = 110, lines: int = 30, **environment: str
    ) -> None:
        self.master, self.slave = pty.openpty()
        self._set_size(columns, lines)
        self.before = termios.tcgetattr(self.slave)
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self._bytes = b""
        kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            arguments,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C is for it
            env={**kept, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **environment},
        )

    @property
    def sent(self) -> str:
        return self._bytes.decode("utf-8", "replace")

    @property
    def seen(self) -> str:
        """The screen as text."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def read(self, seconds: float) -> None:
        """Take what comes within so many seconds."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([self.master], [], [], left)
            if not ready:
                return
            try:
                data = os.read(self.master, 1 << 16)
            except OSError:
                return
            self._bytes += data
            self._stream.feed(data)

    def until(self, holds: Callable[[str], object]) -> str:
        """Read until something holds of the screen; returns the screen.

        The screen may be read when half of it is written: ask for all that is to be there at once.
        """
        end = time.monotonic() + LONG
        while not holds(self.seen):
            if time.monotonic() > end:
                raise AssertionError(f"It never came to that. Seen:\n{self.seen}")
            self.read(0.1)
        return self.seen

    def until_silent(self, seconds: float) -> None:
        """Read until nothing has come for so many seconds."""
        known = -1
        while len(self._bytes) > known:
            known = len(self._bytes)
            self.read(seconds)

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        self._set_size(columns, lines)
        self.screen.resize(lines, columns)
        self.process.send_signal(signal.SIGWINCH)

    def ended(self) -> int:
        """Read until the command has ended; returns its exit code."""
        end = time.monotonic() + LONG
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.1)
        code = self.process.wait(timeout=1)
        self.read(0.2)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def is_as_before(self) -> bool:
        """Whether the terminal is as it was: its settings, screen, cursor and wrapping."""
        end = time.monotonic() + SHORT
        while not self._is_restored() and time.monotonic() < end:
            self.read(0.1)
        return self._is_restored() and termios.tcgetattr(self.slave) == self.before

    def _is_restored(self) -> bool:
        modes = {"?1049": "l", "?25": "h", "?7": "h"}
        last = {m: re.findall(rf"\x1b\[\{m}([hl])", self.sent)[-1:] for m in modes}
        return all(last[m] in ([], [how]) for m, how in modes.items())

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def top(*arguments: object) -> list[str]:
    """The command line of `gradwatch top`."""
    return [sys.executable, "-m", "gradwatch", "top", *map(str, arguments)]
