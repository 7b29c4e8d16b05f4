"""Errors of a model's own train step, also where gradwatch has it traced: the user gets them."""

from collections.abc import Callable
from typing import Any

from gradwatch.capture.keras.backends.wrapped_step import RefusedError

_NAME = "_gradwatch_errors"


class UserErrors:
    """Notes whether a model's train step has raised while it was traced.

    It may not do so again when Keras has it traced, so that must not be taken for an internal
    error. By the exception that arrives it cannot be told: TensorFlow may have made another one.
    """

    def __init__(self) -> None:
        self.have_come = False

    @classmethod
    def of_function(cls, function: Any) -> "UserErrors":
        """Those of a model's own train function, the same for each `fit`."""
        known: UserErrors = vars(function).setdefault(_NAME, cls())
        return known

    def noted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same train step, or a function that calls nothing else; that it raises is noted."""

        def noting(*args: Any) -> Any:
            try:
                return function(*args)
            except RefusedError:
                raise
            except BaseException:
                self.have_come = True
                raise

        return noting
