"""What the user tells of a run: its settings, tags and a note."""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from gradwatch.util import Json


def as_description(config: object, tags: Sequence[str] | str, note: str) -> dict[str, Json]:
    """What the user tells of the run, for `run.json`; empty for nothing."""
    words = [tags] if isinstance(tags, str) else list(tags)
    for each in words:
        if not isinstance(each, str):
            raise TypeError(f"tags takes a list of strings. Received: {each!r}")
    if not isinstance(note, str):
        raise TypeError(f"note takes a string. Received: {note!r}")
    told: dict[str, Json] = {"config": _settings(config), "tags": list(words), "note": note}
    return {name: value for name, value in told.items() if value}


def _settings(config: object) -> dict[str, Json]:
    if config is None:
        return {}
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        config = dataclasses.asdict(config)
    elif isinstance(config, argparse.Namespace):
        config = vars(config)
    if not isinstance(config, Mapping):
        raise TypeError(
            'config takes the settings of the run by name: {"learning_rate": 1e-3}. '
            f"Received: {type(config).__name__}"
        )
    return {str(name): _plain(value) for name, value in config.items()}


def _plain(value: object) -> Json:
    """A setting as JSON has it; what JSON has not is shown as text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return getattr(value, "__name__", None) or str(value)
