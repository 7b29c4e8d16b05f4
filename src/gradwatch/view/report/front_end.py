"""The built front end, as it lies in the package."""

from __future__ import annotations

from dataclasses import dataclass

from gradwatch.view.web.static import load


@dataclass(frozen=True)
class FrontEnd:
    """What a page consists of besides its data.

    Attributes:
        script: the application, one module without imports.
        style: its style sheet.
    """

    script: str
    style: str


def built() -> FrontEnd:
    """The front end that is shipped with the package.

    Raises:
        NotBuiltError: it is not there; the message says how to build it.
    """
    table = load()
    return FrontEnd(*(table[name][0].decode("utf-8") for name in ("/app.js", "/app.css")))
