"""The Parquet files of many runs, for engines that read them at once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gradwatch.store import file_names as names
from gradwatch.store import manifest
from gradwatch.store.remote.address import Remote, as_remote
from gradwatch.store.remote.folder import Folder
from gradwatch.store.tables import SCHEMAS
from gradwatch.util import say
from gradwatch.util.files import regular

READS = 16
"""How many manifests are read at a time."""


def segment_files(place: str | Path | Remote, table: str = "summaries") -> list[str]:
    """The sealed Parquet files of all runs at a place, at any depth, as their manifests name them.

    For DuckDB, Polars, Spark, Ray and others, see docs/remote.md. What is still in journals
    is not among them. A damaged manifest is reported, and its files are left out.

    Args:
        place: a directory, or a URL; a run's or one with many.
        table: `"summaries"`, `"histograms"` or `"pictures"`.

    Returns:
        Paths, or URLs without credentials.

    Raises:
        ValueError: there is no such table.
        OSError: the place cannot be read.

    Example:

    >>> import tempfile
    >>> import gradwatch
    >>> gradwatch.store.segment_files(tempfile.mkdtemp())
    []
    """
    if table not in SCHEMAS:
        raise ValueError(f"There are the tables {', '.join(SCHEMAS)}. Received: {table!r}")
    remote = as_remote(place)
    if remote is None:
        assert not isinstance(place, Remote)
        return sorted(_local(Path(place), table))
    folder = Folder(remote)
    found = [path for path in folder.walk() if _is_manifest(path)]
    with ThreadPoolExecutor(READS) as pool:
        manifests = zip(found, pool.map(folder.read, found), strict=True)
        return sorted(
            folder.url(f"{_folder_of(path)}{names.SEGMENTS}/{file}")
            for path, data in manifests
            for file in _named(data, f"{folder.shown}/{path}", table)
        )


def _local(root: Path, table: str) -> Iterator[str]:
    for path in root.rglob("manifest-*.json"):
        if _is_manifest(path.relative_to(root).as_posix()):
            try:
                data = regular.read_bytes(path)
            except OSError as error:
                say(f"{path} cannot be read, and the segments that it names are left out. {error}")
                continue
            for file in _named(data, str(path), table):
                yield str(path.parent / names.SEGMENTS / file)


def _is_manifest(path: str) -> bool:
    *folders, name = path.split("/")
    is_hidden = any(f == "quarantine" or f.startswith(".") for f in folders)
    return names.parse_manifest(name) is not None and not is_hidden


def _folder_of(path: str) -> str:
    return path[: path.rfind("/") + 1]


def _named(data: bytes, where: str, table: str) -> list[str]:
    try:
        content = manifest.loads(data, Path(where))
        return [str(about["file"]) for about in manifest.named_segments(content, table)]
    except ValueError as error:
        say(f"{where} is damaged, and the segments that it names are left out. {error}")
        return []
