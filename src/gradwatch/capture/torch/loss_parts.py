"""A loss that is the sum of losses of several outputs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gradwatch.capture.constant_guess import CONSTANT_LOSS, OUTPUT_LOSS
from gradwatch.capture.torch.layer_graph import read_layers
from gradwatch.capture.torch.loss_terms import SPARSE, LossTerm
from gradwatch.capture.torch.term_value import TERM_LOSS, guess_of_term, term_value
from gradwatch.capture.torch.torch_facts import owners_of
from gradwatch.core import TorchModule


def output_names(terms: Sequence[LossTerm], module: TorchModule, group: str) -> list[str]:
    """A name for the output of each term: the path of the layer that computes it, if it is one."""
    owners = owners_of(module, group)
    names: list[str] = []
    for term in terms:
        name = read_layers(term.output, owners).last or term.name
        same = sum(each.partition(" ")[0] == name for each in names)
        names.append(f"{name} {same + 1}" if same else name)
    return names


def numbers_of_outputs(
    targets: Mapping[LossTerm, Any | None], names: Sequence[str]
) -> Mapping[str, Any]:
    """Of each of several outputs its loss and its guess, and those of all, as far as known.

    Each is multiplied by the factor of its term in the whole loss.
    """
    found: dict[str, Any] = {}
    guesses, values = [], []
    for (term, target), name in zip(targets.items(), names, strict=True):
        # On a GPU, classes that the loss ignores are among the targets.
        is_unknown = target is None or (target.is_cuda and term.name == SPARSE)
        guess = None if is_unknown else guess_of_term(term, target)
        value = term_value(term)
        if guess is None or value is None or not 0.0 < term.factor < math.inf:
            continue
        guesses.append(guess * term.factor)
        values.append(value * term.factor)
        found[f"{CONSTANT_LOSS}/{name}"], found[f"{OUTPUT_LOSS}/{name}"] = guesses[-1], values[-1]
    if guesses and len(guesses) == len(targets):
        found |= {CONSTANT_LOSS: sum(guesses), TERM_LOSS: sum(values)}
    return found
