"""`gradwatch.compare`: from runs, in whatever way they are named, to a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

from gradwatch.core import KINDS, Kind, select
from gradwatch.read.comparison import Align, Comparison, comparison_of
from gradwatch.read.open_runs import open as open_place
from gradwatch.read.run import Run
from gradwatch.read.runs import Runs, is_run, natural
from gradwatch.store.remote import Remote, as_remote
from gradwatch.util import suggests_arguments

Comparable: TypeAlias = "Run | Runs | str | Path | Remote | Iterable[Comparable]"


@suggests_arguments({"layers": "pattern=", "stat": "statistic=", "metric": "statistic="})
def compare(
    *runs: Comparable,
    kind: Kind | str = Kind.GRADIENT,
    statistic: str | None = None,
    pattern: select.Spec | None = None,
    align: Align = "step",
    max_cells: int = 200_000,
) -> Comparison:
    """Put a statistic of two or more runs side by side.

    Sites of different runs are matched by their paths. Where these differ, as Keras numbers the
    layers of a second model anew, they are matched by the path without the model's name and
    counters, and then by position and shape; `Comparison.matched_by` says which. Losses and the
    model as a whole are compared in any case.

    Args:
        runs: two or more; the others are compared with the first. Each is a run, the path or
            URL of a run or of a directory of runs, a pattern such as `"runs/lr*"`, what
            `gradwatch.open` returns, or a list of these.
        kind, pattern: as in `Run.heatmap`; the pattern selects sites of the first run.
        statistic: as in `Run.heatmap`; by default `l2`, or `value` of single numbers.
        align: `"step"`, or `"fraction"` to compare runs of different lengths by the
            share of training that has passed.
        max_cells: how many values of each run there may be.

    Raises:
        TypeError: something is no run, nor a path.
        ValueError: there are fewer than two runs.
        FileNotFoundError: there is no run at a path.
        NotRecordedError: a run has nothing of that kind.

    Example:

    >>> import tempfile
    >>> import gradwatch, numpy as np
    >>> directory = tempfile.mkdtemp()
    >>> for name, layer in (("a", "net/dense"), ("b", "net_1/dense_1")):
    ...     with gradwatch.Monitor(f"{directory}/{name}", sinks=[gradwatch.Store()]) as monitor:
    ...         monitor.record(gradients={f"{layer}/kernel": np.array([3.0, 4.0])})
    >>> found = gradwatch.compare(f"{directory}/a", f"{directory}/b")
    >>> found.matching
    "1 site matched by path without the model's name and counters."
    >>> found.values.tolist()
    [[[5.0]], [[5.0]]]
    """
    with ExitStack() as opened:
        found = [run for given in runs for run in _runs(given, opened)]
        return comparison_of(found, kind, statistic, pattern, align, max_cells)


def _runs(given: Comparable, opened: ExitStack) -> list[Run]:
    """The runs that an argument stands for; those that it opens are in `opened`."""
    if isinstance(given, Run):
        return [given]
    if isinstance(given, Runs):
        return list(given)
    if isinstance(given, str | Path | Remote):
        found = _at(given)
        for each in found:
            opened.callback(each.close)
        return [run for each in found for run in _runs(each, opened)]
    if isinstance(given, Iterable):
        return [run for each in given for run in _runs(each, opened)]
    raise TypeError(
        "compare() takes runs: each is a run, the path or URL of a run or of a directory of runs, "
        "a pattern such as 'runs/lr*', what gradwatch.open returns, or a list of these. "
        f"Received: {given!r} (of type {type(given).__name__})"
    )


def _at(place: str | Path | Remote) -> Sequence[Run | Runs]:
    if isinstance(place, str) and place in KINDS and not Path(place).exists():
        raise FileNotFoundError(
            f"There is no directory {place!r}. To compare this kind: compare(..., kind={place!r})."
        )
    if as_remote(place) is None and not Path(str(place)).exists() and _is_pattern(str(place)):
        pattern = Path(str(place))
        paths = Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor)))
        found = sorted(
            (each for each in paths if is_run(each)), key=lambda each: natural(str(each))
        )
        if not found:
            raise FileNotFoundError(f"No run's path matches {str(place)!r}.")
        return [Run(each) for each in found]
    return [open_place(place)]


def _is_pattern(path: str) -> bool:
    return any(character in path for character in "*?[")
