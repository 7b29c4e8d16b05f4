"""Strict JSON, whatever the numbers are."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

from gradwatch.util.json_type import Json


def to_json(value: object, indent: int | None = None) -> str:
    """The value as JSON in ASCII.

    JSON has only finite numbers: the others become the strings `"nan"`, `"inf"` and `"-inf"`.
    """
    return json.dumps(jsonable(value), indent=indent, allow_nan=False)


def jsonable(value: object) -> Json:
    """The value in the types that JSON has."""
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        return {str(key): jsonable(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # an array or number of NumPy
        return jsonable(value.tolist())
    return str(value)
