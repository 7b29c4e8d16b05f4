"""`gradwatch.open`: from a directory or a URL to the runs in it."""

from difflib import get_close_matches
from pathlib import Path

from gradwatch.read.remote_runs import open_remote
from gradwatch.read.run import Run
from gradwatch.read.runs import Runs, is_run
from gradwatch.store.remote import Remote, as_remote
from gradwatch.util import suggests_arguments


@suggests_arguments(dict.fromkeys(("directory", "run", "logdir", "folder", "url"), "path="))
def open(path: str | Path | Remote) -> Run | Runs:
    """Open what was recorded: a run, or all runs in a directory.

    Args:
        path: a run's directory, or one in which there are runs, at any depth; or the URL
            of either, see docs/remote.md.

    Raises:
        FileNotFoundError: there is no such directory, or no run in it.
        NotADirectoryError: it is a file.

    Example:

    >>> import tempfile
    >>> import gradwatch, numpy as np
    >>> directory = tempfile.mkdtemp()
    >>> for name in ("a", "b"):
    ...     with gradwatch.Monitor(f"{directory}/{name}", sinks=[gradwatch.Store()]) as monitor:
    ...         monitor.record(gradients={"dense/kernel": np.array([3.0, 4.0])})
    >>> runs = gradwatch.open(directory)
    >>> runs.names
    ['a', 'b']
    >>> runs["a"].series("gradient", "dense/kernel", "l2")
    (array([1]), array([5.]))
    """
    remote = as_remote(path)
    if remote is not None:
        return open_remote(remote)
    assert not isinstance(path, Remote)
    place = Path(path)
    if not place.exists():
        raise FileNotFoundError(f"There is no directory {str(place)!r}.{_near(place)}")
    if not place.is_dir():
        raise NotADirectoryError(f"A run is a directory. Received: {str(place)!r}, which is a file")
    if is_run(place):
        return Run(place)
    runs = Runs(place)
    if not len(runs):
        raise FileNotFoundError(
            f"There is no run in {str(place)!r}: no run.json, journal or manifest at any depth. "
            "A run is what a gradwatch.Monitor with a gradwatch.Store() has written."
        )
    return runs


def _near(place: Path) -> str:
    try:
        neighbours = [each.name for each in place.parent.iterdir() if each.is_dir()]
    except OSError:
        return ""
    near = get_close_matches(place.name, neighbours, n=3)
    return f" Near it: {', '.join(str(place.parent / name) for name in near)}." if near else ""
