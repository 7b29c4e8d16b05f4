"""Variants of a test that are left to `make test-all`."""

from __future__ import annotations

from typing import Any

import pytest


def rarely(*variants: Any) -> list[Any]:
    """Variants, each a value or a tuple of them, that are marked slow.

    @pytest.mark.parametrize("way", ["jit", *rarely("eager", "scan")])
    """
    tuples = [each if isinstance(each, tuple) else (each,) for each in variants]
    return [pytest.param(*each, marks=pytest.mark.slow) for each in tuples]
