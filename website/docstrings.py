"""The griffe extension that mkdocstrings uses: docstrings as `docstrings_text` makes them."""

from typing import Any

import griffe

from website.docstrings_text import readable


class Docstrings(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value)
