"""Names for plain values."""

from typing import Any, TypeAlias

Json: TypeAlias = Any
"""What `json.loads` returns."""
