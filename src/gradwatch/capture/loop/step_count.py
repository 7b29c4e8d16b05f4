"""Where a loop is: which step, which epoch, in each of its groups."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gradwatch.capture.errors import WrongTypeError, WrongValueError
from gradwatch.core import Moment, Site


@dataclass
class Progress:
    """The course of one group of a loop.

    `step` is the last step that was recorded, or looked at and found not due; `epochs_step` is the
    first step seen of the epoch, which stands for it. `is_watched` says that the steps of an
    optimizer are counted, see `watch`, `is_linked` that there is a link of the monitor, see
    `Monitor.optax`. `loss_step` is the newest step whose loss was recorded, and
    `is_under_way` tells whether the module was called since the last step. `sums_of_loss` is given
    the loss of that, or of the last step, and returns numbers to record with it: those that tell
    why it is not finite. `waiting` records what was given of the step under way, when it has ended.
    `noted_batch` are the inputs and targets that were seen in the last such step; none are recorded
    of a loop that itself `gives_batch`.
    """

    step: int = 0
    epoch: int | None = None
    epochs_step: int | None = None
    is_watched: bool = False
    is_linked: bool = False
    loss_step: int = 0
    is_under_way: Callable[[], bool] = lambda: False
    sums_of_loss: Callable[[Any, bool], Mapping[Site, float]] = lambda loss, is_under_way: {}
    waiting: Callable[[], None] | None = None
    gives_batch: bool = False
    noted_batch: set[Site] = field(default_factory=set)
    _metrics: tuple[int, set[str]] = field(default_factory=lambda: (0, set()))

    def metrics_at(self, step: int) -> set[str]:
        """The names of the metrics that were given for a step, if it is the newest with any."""
        if self._metrics[0] != step:
            self._metrics = (step, set())
        return self._metrics[1]

    def moment(self, step: int | None, epoch: int | None) -> Moment:
        """A step as schedules see it: the given one, or the next."""
        step = self.step + 1 if step is None else step
        if epoch is None:
            epoch = 1 if self.epoch is None else self.epoch
        stands = epoch != self.epoch or step == self.epochs_step
        return Moment(step, epoch, stands_for_epoch=stands)

    def past(self, step: int | None) -> Moment:
        """The last step."""
        return self.moment(self.step if step is None else step, None)

    @property
    def is_loss_of_next(self) -> bool:
        """Whether a loss that is given now is of the step that is under way, not of the last one.

        It is if that of the last one is known, and the module was called since: losses are recorded
        before `optimizer.step()`, or that is not called for each, as loss scaling does.
        """
        return self.loss_step >= self.step and self.is_under_way()

    def step_ended(self) -> None:
        """Record what has waited for the end of the step."""
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            waiting()

    def next_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch, self.epochs_step = epoch, self.step + 1

    def advance(self, moment: Moment) -> None:
        if moment.epoch != self.epoch:
            self.epoch, self.epochs_step = moment.epoch, moment.step
        self.step = moment.step


def whole_number(name: str, given: Any) -> int | None:
    """A step or epoch as Python's own number; None stays None."""
    if given is None:
        return None
    try:
        if isinstance(given, bool | str | float):
            raise TypeError
        # Also a counter of an optimizer's, or a scalar array.
        number = int(given)
    except Exception as error:
        raise WrongTypeError(
            f"{name}= is a whole number, known outside of compiled functions. "
            f"Received: {type(given).__name__}"
        ) from error
    if number < 0:
        raise WrongValueError(f"{name}= is not negative. Received: {name}={number}")
    return number


def group_name(given: Any) -> str:
    """A group's name; empty for none."""
    if given is None:
        return ""
    if not isinstance(given, str):
        raise WrongTypeError(f"group= is a name. Received: {given!r}")
    if not given.strip("/") or given != given.strip("/") or "]" in given:
        raise WrongValueError(
            "group= is a name such as 'generator', which paths begin with: neither empty, nor "
            f"with a slash at an end, nor with brackets. Received: {given!r}"
        )
    return given
