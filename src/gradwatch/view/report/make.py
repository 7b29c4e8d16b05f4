"""Writes a report of a run into a file."""

from pathlib import Path

import gradwatch.view.data as data
from gradwatch.diagnosis import findings_of
from gradwatch.read import Run
from gradwatch.read import open as open_run
from gradwatch.util import suggests_arguments
from gradwatch.util.files import atomic
from gradwatch.view.report.digest import digest
from gradwatch.view.report.markdown import MARK, markdown
from gradwatch.view.report.page import GENERATOR, page
from gradwatch.view.report.page_data import Progress, snapshot
from gradwatch.view.web import load

FORMATS = {"html": (".html", ".htm"), "md": (".md", ".markdown"), "json": (".json",)}

_MARKS = (GENERATOR, MARK, '"gradwatch_report"')
_HEAD = 2_000


@suggests_arguments(
    {"directory": "run=", "output": "path=", "file": "path=", "overwrite": "force="}
)
def report(
    run: Run | str | Path,
    path: str | Path = "report.html",
    *,
    format: str | None = None,
    rank: int | None = None,
    force: bool = False,
) -> Path:
    """Write a report of a run into one file.

    An HTML report opens from disk in any browser and requests nothing else. It has findings,
    heatmaps, the worst layers with their plots, and facts. Parts that do not fit into
    8 MB are left out, and listed.

    Args:
        run: a run or its directory.
        path: the file to write. An earlier report is replaced.
        format: `"html"`, `"md"` (GitHub's Markdown) or `"json"`; by default given by the
            file's suffix.
        rank: the rank of a parallel training; by default the first.
        force: replace a file that is not a report, too.

    Returns:
        The file.

    Raises:
        ValueError: there is no such format, or the suffix stands for none.
        FileExistsError: the file exists and is not a report.
        FileNotFoundError: there is no such run.
        NotBuiltError: the viewer's front end, which an HTML report contains, is not built.

    Example:

    >>> import tempfile
    >>> import gradwatch, numpy as np
    >>> directory = tempfile.mkdtemp()
    >>> with gradwatch.Monitor(f"{directory}/run", every=1, sinks=[gradwatch.Store()]) as monitor:
    ...     monitor.record(gradients={"dense/kernel": np.array([3.0, 4.0])})
    >>> gradwatch.report(f"{directory}/run", f"{directory}/report.md").name
    'report.md'
    """
    place = Path(path)
    form = format or format_of(place)
    check_format(form)
    check_free(place, force)
    if isinstance(run, Run):
        return _write(place, text_of(run, form, rank))
    opened = open_run(run)
    if not isinstance(opened, Run):
        raise ValueError(f"{run} has {len(opened)} runs. Name one of them.")
    with opened:
        return _write(place, text_of(opened, form, rank))


def text_of(
    run: Run,
    form: str,
    rank: int | None = None,
    progress: Progress = lambda done, total: None,
    max_bytes: int | None = None,
) -> str:
    """The text of a report in one of the `FORMATS`; `max_bytes` is for JSON."""
    import gradwatch

    version = gradwatch.__version__
    view = data.RunView(run, rank=rank)
    if form == "html":
        files = load()  # First, as they may be missing.
        script, style = (files[name][0].decode("utf-8") for name in ("/app.js", "/app.css"))
        return page(snapshot(view, version, progress), script, style)
    facts = digest(run, data.overview(view, findings_of(run)), view.one_rank, version)
    if form == "json":
        if max_bytes is not None:
            return data.to_json(data.bounded(facts, max_bytes - 1)) + "\n"
        return data.to_json(facts, indent=1) + "\n"
    return markdown(facts)


def format_of(path: Path) -> str:
    """The format of a file by its suffix; ValueError if the suffix stands for none."""
    for form, suffixes in FORMATS.items():
        if path.suffix.lower() in suffixes:
            return form
    known = ", ".join(suffix for suffixes in FORMATS.values() for suffix in suffixes)
    raise ValueError(f"The suffix of {path} is none of {known}. Name the format too.")


def check_format(form: str) -> None:
    """Raise ValueError for an unknown format."""
    if form not in FORMATS:
        raise ValueError(f"There is no format {form!r}. Choose from: {', '.join(FORMATS)}")


def check_free(path: Path, force: bool) -> None:
    """Raise FileExistsError if there is a file that is not a report, unless `force`."""
    if force or not path.exists():
        return
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD).decode("utf-8", "replace")
    except OSError:
        head = ""
    if not any(mark in head for mark in _MARKS):
        raise FileExistsError(
            f"{path} exists and is not a gradwatch report. Replace it by force, or name another "
            "file."
        )


def _write(path: Path, text: str) -> Path:
    atomic.replace(path, text.encode())
    return path
