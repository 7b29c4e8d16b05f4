"""A line every few steps: sums and norms of the model and of any group of tensors."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TextIO

import numpy as np

from gradwatch.core import STATISTICS, Kind, Reading, Statistic, Summary, shown, statistic
from gradwatch.sinks.base import SINK_SYNONYMS, RunInfo, Sink
from gradwatch.util import printable, suggests_arguments


class Totals(Sink):
    """Prints totals over the whole model and over groups that you name.

    A total is merged from the tensors' summaries: the L2 norm of the whole is the root of the
    sum of squares. `TensorBoard` shows the groups too, as `group_gradient_l2/encoder` with its
    own choice of statistics, and `CSV` as rows of kind `group_gradient`.

    `sum` is the signed sum, in which positive and negative elements cancel; `l1`
    is the sum of magnitudes. With NaN or Inf elements they are NaN or Inf, and the number of
    such elements is shown as `nonfinite`.

    Args:
        groups: by name, what belongs to each group: a path pattern, a list of them
            (of which `"!bias"` leaves out), a regular expression or a function of
            a `SiteInfo`; as in `gradwatch.select`, except for indices and types of
            layers. Groups may overlap.
        every: print every so many recorded steps; 0 prints nothing, for groups that
            are only to be in the files.
        statistics: what to print, of those in `gradwatch.core.STATISTICS`.
        kind: what to print it of; groups are in the files for all kinds.
        file: where to print; `sys.stdout` at that time if not given.

    Raises:
        ValueError: a statistic does not exist, or `every` is negative.

    Example:

    >>> import pathlib, sys
    >>> import gradwatch
    >>> from gradwatch.core import Grouping, Summary
    >>> totals = gradwatch.Totals({"biases": "bias"}, file=sys.stdout)
    >>> totals.open(gradwatch.sinks.RunInfo(pathlib.Path(".")))
    >>> sites = [gradwatch.Site(gradwatch.Kind.GRADIENT, f"dense/{v}") for v in ("kernel", "bias")]
    >>> rows = [Summary.of(x).pack() for x in ([3.0, -4.0], [1.0])]
    >>> reading = gradwatch.Reading(10, 1, 0.0, sites, Summary.unpack(rows))
    >>> totals.write(Grouping(totals.groups).attach(reading))
    step 10  gradient  model: sum 0 l1 8 l2 5.09902  biases: sum 1 l1 1 l2 1
    """

    @suggests_arguments(SINK_SYNONYMS)
    def __init__(
        self,
        groups: Mapping[str, Any] | None = None,
        every: int = 1,
        statistics: Sequence[str] = ("sum", "l1", "l2"),
        kind: Kind | str = Kind.GRADIENT,
        file: TextIO | None = None,
    ) -> None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 0:
            raise ValueError(f"every must be >= 0 steps. Received: every={every!r}")
        self.groups = dict(groups or {})
        self.every = every
        self.statistics = (statistics,) if isinstance(statistics, str) else tuple(statistics)
        for name in self.statistics:
            statistic(name, Summary.empty())
        self.kind = Kind(kind)
        self._file = file
        self._seen: dict[str, int] = {}

    def open(self, run: RunInfo) -> None:
        self._seen = {}

    def write(self, reading: Reading) -> None:
        total = reading.total(self.kind)
        if total is None or not self.every:
            return
        # Counted for each scope: in a GAN two readings alternate.
        self._seen[reading.scope] = self._seen.get(reading.scope, 0) + 1
        if self._seen[reading.scope] % self.every == 0:
            named = {reading.scope: total, **reading.named_totals(self.kind)}
            shown = "  ".join(f"{printable(n)}: {self._total(s)}" for n, s in named.items())
            self._print(f"step {reading.step}  {self.kind}  {shown}")

    def _total(self, summary: Summary) -> str:
        with np.errstate(all="ignore"):
            words = [_words(STATISTICS[name], summary) for name in self.statistics]
        nonfinite = float(summary.nan + summary.posinf + summary.neginf)
        return " ".join([*words, *([f"nonfinite {nonfinite:.0f}"] if nonfinite else [])])

    def _print(self, line: str) -> None:
        stream = sys.stdout if self._file is None else self._file
        if stream is not None:
            # A broken output must not end the recording.
            with suppress(Exception):
                # In one call: other threads print too.
                stream.write(f"{line}\n")
                stream.flush()


def _words(statistic: Statistic, summary: Summary) -> str:
    number = float(shown(statistic, summary))
    return f"{statistic.name} {number:{'.0f' if statistic.is_count else '.6g'}}"
