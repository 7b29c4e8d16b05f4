"""The optimizer's state that a loop gives to `record` or `measure`, whatever it comes in."""

import sys
from typing import Any

from gradwatch.capture.errors import WrongTypeError, WrongValueError
from gradwatch.capture.loop.optax_moments import Held, optax_moments
from gradwatch.capture.variable_names import Variables
from gradwatch.measure import Framework


def given_moments(given: Any, known: Variables, own: Framework) -> Held:
    """The moments of the variables, by their positions, and notices of what is not recorded.

    `given` is an optimizer of Keras or torch, (a Keras optimizer, its variables' values), or a
    state of optax, see `optax_moments`.
    """
    keras, torch = sys.modules.get("keras"), sys.modules.get("torch")
    if torch is not None and isinstance(given, torch.optim.Optimizer):
        return _of_torch(given, known)
    values = None
    if isinstance(given, tuple) and len(given) == 2:
        optimizer, values = given
    else:
        optimizer = given
    if keras is not None and isinstance(optimizer, keras.optimizers.Optimizer):
        return _of_keras(optimizer, values, known, own)
    moments, notices = optax_moments(given, known, own)
    if not moments and not notices:
        raise WrongTypeError(
            "optimizer_state= takes an optimizer of Keras or torch, or a state of optax in which "
            "there are moments: best (transformation, state). "
            f"Received: {type(given).__name__}"
        )
    return moments, notices


def _of_torch(optimizer: Any, known: Variables) -> Held:
    from gradwatch.capture.torch.torch_moments import TorchState

    state = TorchState(optimizer)
    trained = {i: n.value for i, n in enumerate(known.named) if n.trainable}
    held = state.moments(list(trained.values()))
    moments = {i: held[id(parameter)] for i, parameter in trained.items()}
    notice = state.notice()
    return moments, [] if notice is None else [notice]


def _of_keras(optimizer: Any, values: Any, known: Variables, own: Framework) -> Held:
    from gradwatch.capture.keras.keras_moments import KerasState

    state = KerasState([optimizer])
    keys, trained = state.moments_of_all(own, values), optimizer._trainable_variables
    if len(trained) != len(known.order):
        raise WrongValueError(
            f"The optimizer updates {len(trained)} variables, and record() was given "
            f"{len(known.order)}. Give those that it updates, in its order."
        )
    pairs = zip(known.order, trained, strict=True)
    moments = {position: keys[id(v)] for position, v in pairs if id(v) in keys}
    return moments, state.notices()
