"""Keeps the steps of a model while they are run."""

import time
from collections.abc import Sequence
from typing import Any

from gradwatch.capture.keras.again.kept_steps import KeptSteps
from gradwatch.capture.keras.again.rerunner import Rerunner
from gradwatch.capture.keras.again.user_errors import UserErrors
from gradwatch.core import Moment
from gradwatch.util import Reporter

SINGLE_SECONDS = 5.0
"""For running single steps again in a training that goes on, in all."""


class StepKeeper:
    """Notes the batches of all steps, and copies the state before some."""

    def __init__(self, rerunner: Rerunner, reporter: Reporter, errors: UserErrors) -> None:
        self.rerunner = rerunner
        self.kept = KeptSteps()
        self.seconds_left = SINGLE_SECONDS
        self.errors = errors
        self._reporter = reporter
        self._own: tuple[Any, Any] = (None, None)
        self._may_copy = self._has_copied = False
        self.harmed: int | None = None
        """A step before which variables stopped being finite, although the loss did not."""

    def begin(self, moments: Sequence[Moment], *, is_measured: bool) -> None:
        """These steps come next; the first copy of the state is made before one not measured."""
        self._may_copy = not is_measured or bool(self.kept.states)
        self.kept.begin(moments)

    def noting(self, function: Any) -> Any:
        """A train function that notes its batches, unless `before` has its arguments do that."""
        return self.rerunner.noting(function, self.note)

    def own(self, function: Any) -> Any:
        """The model's own train function, such that it notes its batches."""
        if self._own[0] is not function:
            self._own = function, self.noting(function)
        return self._own[1]

    def before(self, function: Any, args: Any) -> Any:
        """A step comes next, measured or not: copy the state if it is time to.

        The function is one that uses the same state, and is there already if possible.
        Returns the arguments to use. An internal error leaves these as they are; what the train
        step raises, if it is traced, is raised.
        """
        self.errors.have_come = False
        try:
            if self._may_copy and self.kept.wants_state():
                self._copy_state(function, args)
            return self.rerunner.arguments(args, self.note)
        except Exception as error:
            if self.errors.have_come:
                raise
            self.give_up(error)
            return args

    def note(self, batch: Any) -> None:
        try:
            self.kept.note(batch)
        except Exception as error:
            self.give_up(error)

    def give_up(self, error: Exception) -> None:
        """Keep nothing of this training any more."""
        self.kept.switch_off()
        lost = "the tensors of an unmeasured step, should its loss become NaN"
        self._reporter.internal_error(error, "keeping a step", lost)

    def _copy_state(self, function: Any, args: Any) -> None:
        # That of the last copy is known by now, without waiting for the device.
        self.harmed = self.kept.harmed_before()
        if self.harmed is not None:
            return  # The copies that there are will be needed.
        if not self._has_copied:
            # The first time, what copies is compiled.
            self._has_copied = True
            self.rerunner.copy_state(function, args)
        began = time.perf_counter()
        copied = self.rerunner.copy_state(function, args)
        if copied is None:
            self.kept.switch_off()
            return
        state, finite = copied
        seconds, size = time.perf_counter() - began, self.rerunner.size(state)
        self.kept.add_state(state, finite, size, seconds, self.rerunner.device)
