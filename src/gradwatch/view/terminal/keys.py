"""From the bytes that a terminal sends to keys."""

from __future__ import annotations

import codecs
import re

_SEQUENCES = {
    "[A": "up", "OA": "up", "[B": "down", "OB": "down",
    "[5~": "pageup", "[6~": "pagedown",
    "[H": "home", "OH": "home", "[1~": "home", "[7~": "home",
    "[F": "end", "OF": "end", "[4~": "end", "[8~": "end",
}  # fmt: skip
_NAMES = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace"}
_TOKEN = re.compile(r"\x1b(\[[0-9;?]*[@-~]|O[@-~])|\x1b|.", re.DOTALL)


class Keys:
    """Tells the keys in what is read; characters may come in parts.

    Example:

    >>> from gradwatch.view.terminal.keys import Keys
    >>> Keys().of(b"g\\x1b[B\\x1b[6~/\\x1b")
    ['g', 'down', 'pagedown', '/', 'escape']
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def of(self, read: bytes) -> list[str]:
        """The keys: printable characters as they are, others by name; unknown ones left out."""
        keys = []
        for token in _TOKEN.finditer(self._decoder.decode(read)):
            text = token.group()
            if token.group(1):
                key = _SEQUENCES.get(token.group(1), "")
            elif text == "\x1b":
                key = "escape"
            else:
                key = _NAMES.get(text, text if text.isprintable() else "")
            if key:
                keys.append(key)
        return keys
