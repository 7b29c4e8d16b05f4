"""Pictures as PNG files."""

import os
import re
import zlib
from pathlib import Path

from gradwatch.core import Reading, Site
from gradwatch.sinks.base import SINK_SYNONYMS, RunInfo, Sink
from gradwatch.util import suggests_arguments
from gradwatch.watches.probes import png


class PNG(Sink):
    """Writes the pictures that `gradwatch.pictures` draws to files.

    Into the run's directory, one for each tensor and step:
    `pictures/weight/net.conv1.kernel/00000120.png`. In the folder's name, what is
    not a letter, digit, `_`, `-` or `#` is replaced by a dot; where that, or its
    length, makes two names alike, a checksum follows.

    Args:
        folder: the name of the folder in the run's directory.

    Example:

    >>> import gradwatch
    >>> monitor = gradwatch.Monitor(
    ...     "runs/a", watch=[gradwatch.pictures("conv*/kernel")], sinks=[gradwatch.PNG()]
    ... )
    """

    @suggests_arguments(SINK_SYNONYMS)
    def __init__(self, folder: str = "pictures") -> None:
        if Path(folder).name != folder or folder in {"", ".", ".."}:
            raise ValueError(f"folder is a plain name within the run. Received: {folder!r}")
        self.folder = folder
        self._directory = Path()

    def open(self, run: RunInfo) -> None:
        self._directory = run.directory / self.folder

    def write(self, reading: Reading) -> None:
        for site, picture in reading.pictures.items():
            folder = self._directory / site.kind / file_name(site)
            folder.mkdir(parents=True, exist_ok=True)
            # Whole or not at all: a viewer may be looking.
            temporary = folder / f".{reading.step:08d}.{os.getpid()}"
            temporary.write_bytes(png.encode(picture))
            temporary.replace(folder / f"{reading.step:08d}.png")


def file_name(site: Site) -> str:
    """A name for a folder, of at most 120 characters, safe on every file system."""
    plain = re.sub(r"[^A-Za-z0-9_#-]", ".", site.path).strip(".") or "unnamed"
    if plain.replace(".", "/") == site.path and len(plain) <= 120 and plain.islower():
        return plain
    # Letters of either case are one to some file systems.
    checksum = zlib.crc32(site.path.encode("utf-8", errors="backslashreplace"))
    return f"{plain[:100]}.{checksum:08x}"
