"""The base class of consumers of readings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from gradwatch.core import Kind, Reading

SINK_SYNONYMS = {
    **dict.fromkeys(("logdir", "log_dir", "directory", "dir", "path"), "Monitor(directory)"),
    **dict.fromkeys(("file_name", "name"), "filename="),
    **dict.fromkeys(("rows", "lines", "limit", "n"), "max_rows="),
    **dict.fromkeys(("stream", "output", "out"), "file="),
    **dict.fromkeys(("group", "layers"), "groups="),
    "scalars": "statistics=",
    **dict.fromkeys(("freq", "interval", "update_freq"), "Monitor(every=...)"),
}
"""What is meant by arguments that sinks do not have."""

S = TypeVar("S", bound="Sink")


@dataclass(frozen=True)
class RunInfo:
    """The run, as a sink sees it.

    Attributes:
        directory: the run's own directory; it exists, and no other live
            training writes there.
        first_step: the first step that may be recorded; a resumed run starts
            above 1.
        meaning: the meaning of the measurements of each kind, in words.
        cost: returns in words how often is measured now and at what cost; empty if
            that is not known.
        rank: the number of this process among those that train together.
        is_quiet: whether nothing is to be printed, because of `fit(verbose=0)`.
    """

    directory: Path
    first_step: int = 1
    meaning: Mapping[Kind, str] = field(default_factory=dict)
    cost: Callable[[], str] = field(default=lambda: "", compare=False)
    rank: int = 0
    is_quiet: bool = False


class Sink:
    """A consumer of readings; all methods do nothing unless overridden.

    A sink that writes is called from one background thread, one call at a time,
    and may raise: the fault is reported once and training goes on. `threaded`
    is False for a sink that only keeps readings and prints them from the
    training thread.

    A copy, by `copy` or `pickle`, is a new sink made with the same arguments: what a sink has
    open belongs to one run.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if cls.__init__ is object.__init__ and (args or kwargs):
            raise TypeError(f"{cls.__name__}() takes no arguments")
        sink = super().__new__(cls)
        object.__setattr__(sink, "_made_with", (args, kwargs))
        return sink

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, (type(self), *self._made_with)

    def __copy__(self) -> Self:
        # The arguments themselves, such as a stream.
        return _make(type(self), *self._made_with)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()

    _made_with: tuple[tuple[Any, ...], dict[str, Any]]

    threaded = True

    of_each_rank = False
    """Whether, in a training of many processes, those other than the first also write their own
    measurements to it, such as their losses."""

    groups: Mapping[str, Any] = {}
    """Groups of sites, by name, of which this sink wants totals: path patterns, or
    selectors as in `gradwatch.select`. The run's readings then have their members
    in `members`, so that its other sinks show them too."""

    def before_run(self, run: RunInfo) -> None:
        """A training run begins: before `open`, on the training thread, so it must be quick."""

    def open(self, run: RunInfo) -> None:
        """A training run begins; may be called again after `close`."""

    def write(self, reading: Reading) -> None:
        """Take one step's measurements."""

    def write_many(self, readings: Sequence[Reading]) -> None:
        """Take several steps' measurements, all of them or, if this raises, none.

        Called instead of `write` when more than one waits, which is cheaper where many are
        encoded or written in one go; `write` is called for each if this raises. A class that
        has a `write` of its own and no `write_many` gets them one by one.
        """
        for reading in readings:
            self.write(reading)

    def epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Epoch `epoch`, counted from 1, has ended; on the training thread."""

    def new_finding(self, finding: Any) -> None:
        """The diagnosis has a new `gradwatch.Finding`; on the training thread."""

    def close(self) -> None:
        """The run has ended: write out what is kept, close files."""

    def after_run(self, run: RunInfo) -> None:
        """The run is complete and closed, with all its files; on the training thread."""


def _make(cls: type[S], args: tuple[Any, ...], kwargs: dict[str, Any]) -> S:
    return cls(*args, **kwargs)
