"""Making a report: which form, of what, and into which file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gradwatch.view.data as data
from gradwatch.diagnosis import findings_of
from gradwatch.read import Run
from gradwatch.read import open as open_run
from gradwatch.util.files import atomic
from gradwatch.view.report import front_end
from gradwatch.view.report.digest import digest
from gradwatch.view.report.markdown import MARK, markdown
from gradwatch.view.report.page import GENERATOR, page
from gradwatch.view.report.page_data import snapshot

FORMATS = {"html": (".html", ".htm"), "md": (".md", ".markdown"), "json": (".json",)}
"""The forms that a report has, and the suffixes of files of that form."""

Tell = Callable[[float, float], None]
_MARKS = (GENERATOR, MARK, '"gradwatch_report"')
_HEAD = 2_000


def report(
    run: Run | str | Path,
    path: str | Path = "report.html",
    *,
    format: str | None = None,
    rank: int | None = None,
    force: bool = False,
) -> Path:
    """Write a report of a run: one file that tells what it was like.

    As a page, it opens from disk in any browser and asks for nothing else: findings,
    heatmaps, the worst layers with their plots, facts. What does not fit within some
    megabytes is left out, and said to be.

    Args:
        run: a run, or where it is.
        path: the file to write. One that is a report is replaced.
        format: `"html"`, `"md"` (GitHub's Markdown) or `"json"`; by default by the
            file's suffix.
        rank: the process of a parallel training; by default the first.
        force: replace the file also if it is something else.

    Returns:
        The file.

    Raises:
        ValueError: there is no such format, or the suffix tells none.
        FileExistsError: there is another file in the way.
        FileNotFoundError: there is no such run.
        NotBuiltError: the viewer's front end, which a page consists of, is not there.

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
        raise ValueError(f"{run} has {len(opened)} runs; a report is of one of them.")
    with opened:
        return _write(place, text_of(opened, form, rank))


def text_of(
    run: Run, form: str, rank: int | None = None, tell: Tell = lambda done, of: None
) -> str:
    """The report's text in one of the `FORMATS`; `tell` is told how far it is."""
    import gradwatch

    version = gradwatch.__version__
    view = data.RunView(run, rank=rank)
    if form == "html":
        parts = front_end.built()  # first, as it is what may be missing
        return page(snapshot(view, version, tell), parts)
    facts = digest(run, data.overview(view, findings_of(run)), view.one_rank, version)
    return data.to_json(facts, indent=1) + "\n" if form == "json" else markdown(facts)


def format_of(path: Path) -> str:
    """The format that a file's suffix stands for.

    Raises:
        ValueError: it stands for none.

    >>> from pathlib import Path
    >>> from gradwatch.view.report.make import format_of
    >>> format_of(Path("report.MD"))
    'md'
    """
    for form, suffixes in FORMATS.items():
        if path.suffix.lower() in suffixes:
            return form
    known = ", ".join(suffix for suffixes in FORMATS.values() for suffix in suffixes)
    raise ValueError(
        f"What format is {path}? Its suffix is none of {known}. Name the format as well."
    )


def check_format(form: str) -> None:
    """Refuse a format that does not exist.

    Raises:
        ValueError: there is none of that name.
    """
    if form not in FORMATS:
        raise ValueError(f"There is no format {form!r}. Choose from: {', '.join(FORMATS)}")


def check_free(path: Path, force: bool) -> None:
    """Refuse to replace what is not a report.

    Raises:
        FileExistsError: there is another file.
    """
    if force or not path.exists():
        return
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD).decode("utf-8", "replace")
    except OSError:
        head = ""
    if not any(mark in head for mark in _MARKS):
        raise FileExistsError(
            f"{path} exists, and is no report of gradwatch's. Replace it by force, "
            "or name another file."
        )


def _write(path: Path, text: str) -> Path:
    atomic.replace(path, text.encode())
    return path
