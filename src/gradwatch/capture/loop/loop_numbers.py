"""The numbers that a loop gives at steps of which nothing else is due."""

import time
from collections.abc import Callable, Mapping

from gradwatch.capture.errors import WrongPlaceError
from gradwatch.capture.loop.loop_readings import check_number
from gradwatch.capture.loss_signs import LossSigns
from gradwatch.capture.number_log import NumberLog, StepNumbers
from gradwatch.capture.recorder import Submit
from gradwatch.capture.site_table import SiteTables
from gradwatch.capture.step_tensors import under
from gradwatch.core import VALUE, Kind, Moment, Site, Summary, Tensor, scope
from gradwatch.measure import Fetched

Number = float | Callable[[], float]
"""A number, or a function that waits for it while it is being copied to the host."""


def fetched_number(what: str, number: Tensor) -> Number:
    """Start copying a number to the host; raises if it is none, or is traced."""
    own = check_number(what, number)
    if own.is_traced(number):
        raise WrongPlaceError(
            f"monitor.record() was given {what} inside a compiled function. Return it from the "
            "function, and record it outside."
        )
    return own.fetch_number(number)


class LoopNumbers(NumberLog):
    """Sends losses and metrics of a loop; `tables` are those of its measurements.

    `signs` is shown the losses of whole steps, unless they are those of a group: the parts of a
    training may be adversaries, whose losses jump.
    """

    def __init__(self, submit: Submit, tables: SiteTables, signs: LossSigns) -> None:
        super().__init__(submit)
        self._tables = tables
        self._signs = signs

    def add_loss(self, moment: Moment, group: str, number: Number, micro_batch: int | None) -> None:
        site = Site(Kind.LOSS, under(scope(group, micro_batch), "loss"))
        is_judged = not group and micro_batch is None
        if is_judged and isinstance(number, float):
            self._signs.add(number)

        def numbers() -> Mapping[Site, float]:
            loss = _known(number)
            if is_judged and not isinstance(number, float):
                self._signs.add_late(loss)
            return {site: loss}

        self.add(moment, numbers, group, micro_batch)

    def add_metrics(self, moment: Moment, group: str, numbers: Mapping[str, Number]) -> None:
        """Add numbers by name."""
        by_site = {Site(Kind.METRIC, under(group, name)): x for name, x in numbers.items()}
        self.add(moment, lambda: {site: _known(x) for site, x in by_site.items()}, group)

    def add_measured_loss(self, moment: Moment, wait: Fetched) -> None:
        """Add the loss among the arrays of a measurement: a packed summary, `loss`."""
        when = time.time()

        def numbers() -> StepNumbers:
            arrays = wait()
            table = self._tables.numbered(int(arrays["table"]))
            loss = float(VALUE(Summary.unpack(arrays["loss"])))
            values = {Site(Kind.LOSS, under(table.prefix, "loss")): loss}
            return StepNumbers(moment, when, values, table.group, table.micro_batch)

        self.add_later(numbers)


def _known(number: Number) -> float:
    return number if isinstance(number, float) else number()
