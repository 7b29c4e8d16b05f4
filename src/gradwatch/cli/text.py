"""What commands print: lines, and names, numbers, sizes and times in them."""

from __future__ import annotations

import sys

from gradwatch.util import printable as printable
from gradwatch.view.glance import bytes_ as bytes_
from gradwatch.view.glance import compact as compact
from gradwatch.view.glance import counted as counted
from gradwatch.view.glance import duration as duration
from gradwatch.view.glance import percent as percent


def echo(line: str, err: bool = False) -> None:
    """Print a line at once: whoever follows it need not wait for a buffer to fill."""
    stream = sys.stderr if err else sys.stdout
    stream.write(f"{line}\n")
    stream.flush()
