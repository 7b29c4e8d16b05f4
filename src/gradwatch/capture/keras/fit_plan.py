"""The plan of a model that `fit` trains."""

from gradwatch.capture.keras.layers import output_sites_of
from gradwatch.capture.keras.step_inputs import step_input_sites
from gradwatch.capture.keras.variables import sites_of
from gradwatch.core import KerasModel
from gradwatch.watches import Plan, Timetable


class FitPlan:
    """Makes the plan of a model as soon as its variables exist; `current` is None before."""

    def __init__(self, model: KerasModel, timetable: Timetable) -> None:
        self.timetable = timetable
        self.current: Plan | None = None
        self._model = model
        self._weights = -1

    @property
    def is_outdated(self) -> bool:
        """Whether a layer was built since the plan was made: a compiled step does not know it."""
        return self.current is not None and len(self._model.weights) != self._weights

    def make_if_built(self) -> None:
        """Make the plan, unless there is one, or the model has layers without variables yet."""
        if self.current is None and all(layer.built for layer in self._model._flatten_layers()):
            self.require()

    def require(self) -> Plan:
        """The plan, made now if there is none; ValueError if a selector matches nothing."""
        if self.current is None:
            kinds = self.timetable.kinds
            available = sites_of(self._model)
            if any(kind.is_of_layer for kind in kinds):
                available += output_sites_of(self._model)
            available += step_input_sites(kinds)
            self.current = Plan(self.timetable, available)
            self._weights = len(self._model.weights)
        return self.current

    def renew(self) -> None:
        """Forget the plan."""
        self.current = None
