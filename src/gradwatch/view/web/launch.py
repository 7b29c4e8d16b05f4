"""Opens the browser without showing the token in the list of processes."""

import html
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def open_browser(link: str) -> Iterator[None]:
    """Open a link through a file that redirects to it and that only its owner can read.

    As an argument of the browser, the link and its token would be visible to every account
    on this machine.
    """
    with tempfile.TemporaryDirectory(prefix="gradwatch-") as folder:
        page = Path(folder) / "open.html"
        page.touch(0o600)
        target = html.escape(link, quote=True)
        page.write_text(
            f'<!doctype html><meta charset="utf-8"><title>gradwatch</title>'
            f'<meta http-equiv="refresh" content="0;url={target}">'
            f'<a href="{target}">gradwatch</a>\n'
        )
        with suppress(webbrowser.Error):  # The link is printed too.
            webbrowser.open(page.as_uri())
        yield
