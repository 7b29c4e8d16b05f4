"""Which trainings have steps that can be run again."""

import keras

from gradwatch.capture.keras.again.rerunner import Rerunner
from gradwatch.capture.keras.again.step_keeper import StepKeeper
from gradwatch.capture.keras.again.user_errors import UserErrors
from gradwatch.capture.keras.backends import KerasBackend
from gradwatch.capture.keras.stand_in import restored_train_function
from gradwatch.core import KerasModel
from gradwatch.parallel import ranks
from gradwatch.util import Reporter


def make_keeper(model: KerasModel, backend: KerasBackend, reporter: Reporter) -> StepKeeper | None:
    """What keeps the steps of a model to run them again; None where they are not kept.

    That is where they call the user's code each time, because they are not compiled, where several
    devices or processes take part, and where TensorFlow runs several steps at once.
    """
    rerunner, errors = None, UserErrors()
    with reporter.guard("preparing to keep steps", "what is kept of steps that are not measured"):
        errors = UserErrors.of_function(restored_train_function(model))
        rerunner = _make_rerunner(model, backend, errors)
    return None if rerunner is None else StepKeeper(rerunner, reporter, errors)


def _make_rerunner(model: KerasModel, backend: KerasBackend, errors: UserErrors) -> Rerunner | None:
    name = keras.backend.backend()
    if name == "torch":
        return None  # Its steps are not compiled.
    if model.run_eagerly or ranks.current().is_one_of_many or not _is_of_keras(model):
        return None
    if name == "jax" and model.jit_compile and keras.distribution.distribution() is None:
        from gradwatch.capture.keras.again.jax_rerunner import JaxRerunner
        from gradwatch.capture.keras.backends.jax_backend import JaxBackend

        return JaxRerunner(backend) if isinstance(backend, JaxBackend) else None
    if name == "tensorflow" and model.steps_per_execution == 1:
        from gradwatch.capture.keras.again.tensorflow_rerunner import TensorFlowRerunner
        from gradwatch.capture.keras.backends.tensorflow_backend import TensorFlowBackend

        if isinstance(backend, TensorFlowBackend) and not backend.is_replicated:
            return TensorFlowRerunner(model, backend, errors)
    return None


def _is_of_keras(model: KerasModel) -> bool:
    """Whether the train function is made as Keras makes it."""
    makes = type(model).make_train_function, type(model)._make_function
    functions = *makes, vars(model)["train_function"]
    return all(getattr(f, "__module__", "").startswith("keras.") for f in functions)
