"""What losses and metrics are called."""

from collections.abc import Mapping, Sequence
from typing import Any

from gradwatch.core import Kind


def number_names(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of entries of `number_rows`: no two are the same.

    A metric at the end of epochs is the epoch's. Where it is also reported after steps, that is
    Keras's mean of the epoch so far; else it is what the user's loop gave.
    """
    paths = [each["path"] for each in entries if each["kind"] != Kind.EPOCH_METRIC]
    of_epochs = {each["path"] for each in entries if each["kind"] == Kind.EPOCH_METRIC}
    names = []
    for each in entries:
        kind, path = each["kind"], each["path"]
        if kind == Kind.EPOCH_METRIC:
            names.append(f"{path} of the epoch")
        elif kind == Kind.METRIC and path in of_epochs:
            names.append(f"{path} of the epoch so far")
        elif paths.count(path) == 1:
            names.append(path)
        else:
            names.append(f"{path}, as reported" if kind == Kind.METRIC else f"{path} of the step")
    return names
