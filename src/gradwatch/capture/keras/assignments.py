"""Notices assignments to variables in a step that is run eagerly."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from keras.src.backend.common.stateless_scope import in_stateless_scope

from gradwatch.util import Reporter


def assignment_taps(
    variables: Sequence[Any], about_to_change: Callable[[Any], None], reporter: Reporter
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Wraps `assign` of variables, for `replaced`: a layer may change weights in its call.

    `about_to_change` is called with a variable before each assignment.
    """

    def wrapped(variable: Any, assign: Any) -> Any:
        def tapped_assign(*args: Any, **kwargs: Any) -> Any:
            try:
                # In a stateless scope, it is the scope that changes.
                if not in_stateless_scope():
                    about_to_change(variable)
            except Exception as error:
                doing = "copying a variable before a layer assigns it"
                reporter.internal_error(error, doing, "its update in that step")
            return assign(*args, **kwargs)

        return tapped_assign

    for variable in variables:
        yield variable, {"assign": wrapped(variable, variable.assign)}
