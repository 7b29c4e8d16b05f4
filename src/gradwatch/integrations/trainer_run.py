"""What callbacks of trainers have in common: a monitor, and the steps of their optimizers."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any

from gradwatch.capture import guarded
from gradwatch.record import Monitor
from gradwatch.sinks import Store, TensorBoard

_TIMES = ("runtime", "per_second", "_time")


class TrainerRun:
    """Records the trainings of a trainer. No mistake in its use stops training.

    Args:
        show: the trainer's own way to log a warning.
        arguments: those of `Monitor`; without `sinks`, nothing is printed but findings.
    """

    def __init__(self, show: Callable[[str], object], *arguments: Any, **options: Any) -> None:
        options.setdefault("sinks", [Store(), TensorBoard()])
        self.monitor = Monitor(*arguments, **options)
        self.monitor._session.is_quiet = True
        self._reporter = self.monitor._reporter
        self._reporter.show = show
        self._groups: list[str | None] = []
        self._losses: Any = None

    @property
    def is_on(self) -> bool:
        return self._losses is not None

    @property
    def steps(self) -> list[int]:
        """The last step of each optimizer."""
        return [self.monitor._loop.step_of(group) for group in self._groups]

    def notice(self, message: str) -> None:
        self._reporter.notice(message)

    @guarded("beginning a training", "this training")
    def begin(self, module: Any, optimizers: Sequence[Any], steps: Sequence[int]) -> None:
        """A training begins, or goes on after these steps of its optimizers."""
        if self.is_on:
            self.end()
        several = len(optimizers) > 1
        self._groups = [f"optimizer_{i}" if several else None for i in range(len(optimizers))]
        loop = self.monitor._loop
        losses = loop.backward_losses()
        for group, optimizer, step in zip(self._groups, optimizers, steps, strict=True):
            is_watched = False
            try:
                is_watched = loop.watch_torch(loop.outermost(module), optimizer, group)
            except (TypeError, ValueError, ImportError) as mistake:
                self.notice(f"{mistake} Nothing is recorded; training goes on.")
            if not is_watched:
                losses.close()
                return
            loop.continue_at(step, group)
            loop.record_losses(losses, optimizer, group)
        self._losses = losses

    @guarded("counting a step", "the right number of that step")
    def continue_at(self, step: int) -> None:
        """The trainer has made so many steps, with those that a loss scaler has skipped."""
        if self.is_on and len(self._groups) == 1:
            self.monitor._loop.continue_at(step)

    @guarded("beginning an epoch", "the number of that epoch")
    def begin_epoch(self, epoch: int) -> None:
        if self.is_on:
            for group in self._groups:
                self.monitor.record(epoch=epoch, group=group)

    @guarded("ending a step", "the loss of that step")
    def end_step(self) -> bool:
        """Record the loss of a step that was skipped; returns whether training is to stop."""
        if not self.is_on:
            return False
        loss = self._losses.take_skipped()
        if loss is not None:
            self.monitor.record(loss=loss, group=self._groups[0])
        return self.monitor.should_stop

    @guarded("recording what the trainer logs", "these numbers")
    def log(self, metrics: Mapping[str, Any]) -> None:
        """Record numbers that the trainer has computed after the last step."""
        step = max(self.steps, default=0)
        if self.is_on and step:
            numbers = {n: float(x) for n, x in metrics.items() if _is_number(n, x)}
            new = self.monitor._loop.new_metrics(numbers, step)
            if new:
                self.monitor.record(metrics=new, step=step)

    @guarded("ending a training", "perhaps its last steps")
    def end(self) -> None:
        losses, self._losses = self._losses, None
        if losses is not None:
            losses.close()
        self.monitor.close()


def _is_number(name: str, value: Any) -> bool:
    """Whether it is one number, or a tensor of one, and not a time that the trainer took."""
    if isinstance(value, bool) or any(word in name for word in _TIMES):
        return False
    return isinstance(value, Number) or (hasattr(value, "numel") and value.numel() == 1)
