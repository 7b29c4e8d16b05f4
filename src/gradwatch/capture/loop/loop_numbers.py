"""The numbers that a loop gives at steps of which nothing else is due."""

import time
from collections.abc import Callable, Mapping

from gradwatch.capture.errors import WrongPlaceError
from gradwatch.capture.loop.loop_readings import check_number
from gradwatch.capture.number_log import NumberLog, StepNumbers
from gradwatch.capture.recorder import Submit
from gradwatch.capture.site_table import SiteTables
from gradwatch.capture.step_tensors import under
from gradwatch.core import VALUE, Kind, Moment, Site, Summary, Tensor, scope
from gradwatch.measure import Fetched

Wait = Callable[[], float]
"""Waits for a number that is being copied to the host."""


def fetched_number(what: str, number: Tensor) -> Wait:
    """Start copying a number to the host; raises if it is none, or is traced."""
    own = check_number(what, number)
    if own.is_traced(number):
        raise WrongPlaceError(
            f"monitor.record() was given {what} inside a compiled function. Return it from the "
            "function, and record it outside."
        )
    return own.fetch_number(number)


class LoopNumbers(NumberLog):
    """Sends losses and metrics of a loop; `tables` are those of its measurements."""

    def __init__(self, submit: Submit, tables: SiteTables) -> None:
        super().__init__(submit)
        self._tables = tables

    def add_loss(self, moment: Moment, group: str, wait: Wait, micro_batch: int | None) -> None:
        site = Site(Kind.LOSS, under(scope(group, micro_batch), "loss"))
        self.add(moment, lambda: {site: wait()}, group, micro_batch)

    def add_metrics(self, moment: Moment, group: str, waits: Mapping[str, Wait]) -> None:
        """Add numbers by name."""
        by_site = {Site(Kind.METRIC, under(group, name)): wait for name, wait in waits.items()}
        self.add(moment, lambda: {site: wait() for site, wait in by_site.items()}, group)

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
