"""Strict JSON, whatever the numbers are."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def dumps(value: Any, indent: int | None = None) -> str:
    """The value as JSON in ASCII.

    JSON has no numbers that are not finite: they are the strings `"nan"`, `"inf"` and
    `"-inf"`. What is not known is null.

    >>> from gradwatch.view.glance.json_text import dumps
    >>> dumps({"loss": float("nan"), "steps": (1, 2), "ratio": None})
    '{"loss": "nan", "steps": [1, 2], "ratio": null}'
    """
    return json.dumps(plain(value), indent=indent, allow_nan=False)


def plain(value: Any) -> Any:
    """The same in what JSON has."""
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # an array or a number of NumPy's
        return plain(value.tolist())
    return str(value)
