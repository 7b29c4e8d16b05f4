"""The plan of a model that `fit` trains."""

from gradwatch.capture.keras.keras_moments import KerasState
from gradwatch.capture.keras.keras_vitals import VITALS
from gradwatch.capture.keras.layers import output_sites_of, vital_sites_of
from gradwatch.capture.keras.step_inputs import step_input_sites
from gradwatch.capture.keras.variables import sites_of
from gradwatch.core import KerasModel, Kind
from gradwatch.util import Reporter
from gradwatch.watches import Plan, Timetable, missing_vitals


class FitPlan:
    """Makes the plan of a model as soon as its variables exist; `current` is None before.

    If the optimizer's state is watched, its variables have to exist, too.
    """

    def __init__(self, model: KerasModel, timetable: Timetable, reporter: Reporter) -> None:
        self.timetable = timetable
        self.current: Plan | None = None
        self._model = model
        self._reporter = reporter
        self._weights = -1

    @property
    def is_outdated(self) -> bool:
        """Whether a layer was built since the plan was made: a compiled step does not know it."""
        return self.current is not None and len(self._model.weights) != self._weights

    def make_if_built(self) -> None:
        """Make the plan, unless there is one, or the model has layers without variables yet."""
        if self.current is None and all(layer.built for layer in self._model._flatten_layers()):
            if self._watches_state and not KerasState.of_model(self._model).is_built:
                return
            self.require()

    def require(self) -> Plan:
        """The plan, made now if there is none; ValueError if a selector matches nothing."""
        if self.current is None:
            kinds = self.timetable.kinds
            available = sites_of(self._model)
            if any(kind.is_of_layer for kind in kinds):
                available += output_sites_of(self._model)
            if not kinds.isdisjoint(VITALS):
                available += vital_sites_of(self._model)
            if self._watches_state:
                state = KerasState.of_model(self._model)
                available += state.infos(self._model)
                for notice in state.notices():
                    self._reporter.notice(notice)
            for notice in missing_vitals(self.timetable, available):
                self._reporter.notice(notice)
            available += step_input_sites(kinds)
            self.current = Plan(self.timetable, available)
            self._weights = len(self._model.weights)
        return self.current

    @property
    def _watches_state(self) -> bool:
        return Kind.FIRST_MOMENT in self.timetable.kinds

    def renew(self) -> None:
        """Forget the plan."""
        self.current = None
