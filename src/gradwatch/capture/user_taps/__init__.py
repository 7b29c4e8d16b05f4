"""Taps that users put into the code of models, also into compiled code."""

from gradwatch.capture.user_taps.tap import residual, router, tap
from gradwatch.capture.user_taps.tap_collector import TapCollector
from gradwatch.capture.user_taps.tap_rows import REPLICATED, SCALED, TapRows
from gradwatch.capture.user_taps.tap_state import OWNED, OWNER, STATE
from gradwatch.capture.user_taps.with_taps import with_taps

__all__ = [
    "OWNED",
    "OWNER",
    "REPLICATED",
    "SCALED",
    "STATE",
    "TapCollector",
    "TapRows",
    "residual",
    "router",
    "tap",
    "with_taps",
]
