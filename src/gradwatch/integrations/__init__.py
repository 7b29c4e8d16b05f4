"""Bridges to other tools: trainers, trackers, Jupyter, event files, running a script."""

from importlib import import_module
from typing import Any

_LAZY_MODULES = ("lightning", "transformers")
"""They import the trainer that they are for."""


def __getattr__(name: str) -> Any:
    if name in _LAZY_MODULES:
        return import_module(f"gradwatch.integrations.{name}")
    raise AttributeError(f"module 'gradwatch.integrations' has no attribute {name!r}")
