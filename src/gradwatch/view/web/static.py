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
    folder = files("gradwatch.view") / "static"
    try:
        table = {f"/{name}": ((folder / name).read_bytes(), t) for name, t in _TYPES.items()}
    except OSError as error:
        raise NotBuiltError(
            "The viewer's front end is not built. In a checkout of gradwatch, build it with: "
            "npm --prefix viewer ci && npm --prefix viewer run build. An installed gradwatch "
            "has it: install it again."
        ) from error
    return {"/": table["/index.html"], **table}
