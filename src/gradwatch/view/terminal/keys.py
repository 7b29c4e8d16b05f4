"""Decodes the bytes that a terminal sends into keys."""

import codecs
import re

_SEQUENCES = {
    "[A": "up", "OA": "up", "[B": "down", "OB": "down",
    "[5~": "pageup", "[6~": "pagedown",
    "[H": "home", "OH": "home", "[1~": "home", "[7~": "home",
    "[F": "end", "OF": "end", "[4~": "end", "[8~": "end",
}  # fmt: skip
_NAMES = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace", "\x1b": "escape"}
_TOKEN = re.compile(r"\x1b(\[[0-9;?]*[@-~]|O[@-~])|.", re.DOTALL)


class KeyDecoder:
    """Decodes keys; the bytes of a character may come in several parts."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def decode(self, data: bytes) -> list[str]:
        """The keys: characters as they are, others by name; unknown keys are left out."""
        keys = []
        for token in _TOKEN.finditer(self._decoder.decode(data)):
            text = token.group()
            if token.group(1):
                keys.append(_SEQUENCES.get(token.group(1), ""))
            else:
                keys.append(_NAMES.get(text, text if text.isprintable() else ""))
        return [key for key in keys if key]
