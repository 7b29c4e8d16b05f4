"""The page's files: a fixed table, read from the package."""

from importlib.resources import files

Files = dict[str, tuple[bytes, str]]
"""By the path of a URL, a file's bytes and media type."""

_TYPES = {
    "index.html": "text/html; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "app.css": "text/css; charset=utf-8",
}


class NotBuiltError(Exception):
    """The front end is not built."""


def load() -> Files:
    """The table of files; no other file is ever served. NotBuiltError if they are missing."""
    table = {f"/{name}": (_content(name), media_type) for name, media_type in _TYPES.items()}
    return {"/": table["/index.html"], **table}


def load_module() -> str:
    """The module with which a notebook shows the page; NotBuiltError if it is missing."""
    return _content("widget.js").decode("utf-8")


def _content(name: str) -> bytes:
    try:
        return (files("gradwatch.view") / "static" / name).read_bytes()
    except OSError as error:
        raise NotBuiltError(
            "The viewer's front end is not built. In a checkout of gradwatch, build it with: "
            "npm --prefix viewer ci && npm --prefix viewer run build. An installed gradwatch "
            "has it: install it again."
        ) from error
