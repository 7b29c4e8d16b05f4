"""Finds the variable that each of the given tensors belongs to."""

from collections.abc import Iterator

from gradwatch.capture.errors import WrongTypeError, WrongValueError
from gradwatch.capture.shapes import shape_of, shapes_agree
from gradwatch.capture.step_tensors import ABSENT
from gradwatch.capture.trees import leaves
from gradwatch.capture.variable_names import Variables, value_of
from gradwatch.core import Tensor, Tree


def aligned(what: str, given: Tree, known: Variables) -> list[Tensor]:
    """The tensors in the order of `known.named`; `ABSENT` where there is none.

    `given` is a list in the variables' order, or the same tree as theirs. `what` is the name of the
    argument, for messages.
    """
    found: list[Tensor] = [ABSENT] * len(known.named)
    for where, position, value in _placed(what, given, known):
        variable = known.named[position]
        value = value_of(value)
        if value is not None and not hasattr(value, "shape"):
            raise WrongTypeError(
                f"{what} {where} (for {variable.path!r}) is no tensor. "
                f"Received: {type(value).__name__}"
            )
        expected, received = shape_of(variable.value), shape_of(value)
        if value is not None and not shapes_agree(expected, received):
            raise WrongValueError(
                f"{what} {where} has the shape {received}, but {variable.path!r}, to which it "
                f"would belong, has {expected}. Give both in the same order."
            )
        found[position] = value
    return found


def _placed(what: str, given: Tree, known: Variables) -> Iterator[tuple[str, int, Tensor]]:
    """(which one, position of its variable, tensor) for all that was given."""
    if isinstance(given, Iterator):
        given = list(given)
    found = leaves(given)
    if isinstance(given, list | tuple) and not any(leaf.is_named for leaf in found):
        # By place; unless there are leaves that are no variables, which must be skipped.
        if len(found) == len(known.order):
            for i, (leaf, position) in enumerate(zip(found, known.order, strict=True)):
                yield f"[{i}]", position, leaf.value
            return
        if not set(known.position) <= {leaf.keys for leaf in found}:
            raise WrongValueError(
                f"{what} has {len(found)} entries, but there are {len(known.order)} variables to "
                "have one. Give one for each, in the same order; None where there is none."
            )
    if len(found) == 1 and not found[0].keys and len(known.order) == 1:
        yield "", known.order[0], found[0].value
        return
    for leaf in found:
        where = f"[{'/'.join(leaf.keys)!r}]"
        if leaf.keys in known.position:
            yield where, known.position[leaf.keys], leaf.value
        elif leaf.value is not None and hasattr(leaf.value, "shape"):
            names = ", ".join("/".join(keys) for keys in list(known.position)[:5])
            raise WrongValueError(f"{what}{where} belongs to no variable. There are: {names}, ...")
