"""A step that is not measured, but kept."""

from typing import Any

from gradwatch.capture.keras.again.step_keeper import StepKeeper
from gradwatch.capture.keras.stand_in import StandIn
from gradwatch.core import KerasModel


class KeptCall(StandIn):
    """Runs the model's own train function, and keeps what is needed to run it again."""

    def __init__(self, model: KerasModel, keeper: StepKeeper) -> None:
        super().__init__(model)
        self._keeper = keeper

    def __call__(self, *args: Any) -> Any:
        # As in `MeasuredCall`: the model's step is run in any case, and once.
        self._model.__dict__["train_function"] = function = self._own_function
        try:
            args = self._keeper.before(self._keeper.own(function), args)
            if not self._keeper.kept.is_off:
                function = self._keeper.own(function)
        except Exception as error:
            if self._keeper.errors.have_come:
                raise
            self._keeper.give_up(error)
        return function(*args)
